// A stock gRPC client in Go: calls the services of grpc_services.py at the address it is given, and prints what it got
// as one JSON object a scenario.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"

	"hutong.test/grpcclient/shop"
)

func main() {
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	defer connection.Close()
	client := shop.NewShopClient(connection)
	place(client)
	fail(client)
	stream(client)
	leave(client)
	deadline(client)
	unknown(connection)
	oversized(client)
	headers(client)
	list(connection)
}

func background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

func place(client shop.ShopClient) {
	ctx, cancel := background()
	defer cancel()
	note := "soon"
	count := int64(3)
	response, err := client.Place(ctx, &shop.PlaceRequest{
		Lines:   []*shop.Line{{Item: "nut", Price: "1.50", Count: &count}, {Item: "bolt", Price: "2"}},
		Payment: &shop.ByCardOrByInvoice{Value: &shop.ByCardOrByInvoice_ByCard{ByCard: &shop.ByCard{Number: "42"}}},
		Note:    &note,
	})
	check(err)
	order := response.GetResult()
	tell("place", map[string]any{
		"number": order.GetNumber(), "total": order.GetTotal(), "state": order.GetState().String(),
		"at": order.GetAt().AsTime().Format(time.RFC3339Nano), "card": order.GetPayment().GetByCard().GetNumber(),
		"note": order.GetNote(), "counts": []int64{order.GetLines()[0].GetCount(), order.GetLines()[1].GetCount()},
	})
}

func fail(client shop.ShopClient) {
	ctx, cancel := background()
	defer cancel()
	var trailers metadata.MD
	_, err := client.Place(ctx, &shop.PlaceRequest{
		Lines:   []*shop.Line{{Item: "tea", Price: "1"}},
		Payment: &shop.ByCardOrByInvoice{Value: &shop.ByCardOrByInvoice_ByInvoice{ByInvoice: &shop.ByInvoice{Days: 1}}},
	}, grpc.Trailer(&trailers))
	tell("fail", map[string]any{
		"status": status.Code(err).String(), "message": status.Convert(err).Message(),
		"code": trailers.Get("hutong-code"), "error": trailers.Get("hutong-error"),
		"debug": trailers.Get("hutong-debug-info-bin"),
	})
	_, err = client.Place(ctx, &shop.PlaceRequest{})
	tell("wrong", map[string]any{"status": status.Code(err).String()})
}

func stream(client shop.ShopClient) {
	ctx, cancel := background()
	defer cancel()
	numbers, err := client.Count(ctx, &shop.CountRequest{Start: 3, Stop: 1003})
	check(err)
	next := int64(3)
	for {
		response, err := numbers.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		check(err)
		if response.GetResult() != next {
			check(fmt.Errorf("%d came where %d is next", response.GetResult(), next))
		}
		next++
	}
	ended, err := client.Closed(ctx, &shop.ClosedRequest{Method: "count"})
	check(err)
	tell("stream", map[string]any{"next": next, "closed": ended.GetResult()})
}

func leave(client shop.ShopClient) {
	ctx, cancel := background()
	data, err := client.Fill(ctx, &shop.FillRequest{Size: 100_000, Items: 1_000_000})
	check(err)
	first, err := data.Recv()
	check(err)
	cancel()
	_, err = data.Recv()
	for err == nil { // what had come already
		_, err = data.Recv()
	}
	ctx, cancel = background()
	defer cancel()
	ended, closedErr := client.Closed(ctx, &shop.ClosedRequest{Method: "fill"})
	check(closedErr)
	tell("leave", map[string]any{
		"bytes": len(first.GetResult()), "status": status.Code(err).String(), "closed": ended.GetResult(),
	})
}

func deadline(client shop.ShopClient) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := client.Sleep(ctx, &shop.SleepRequest{Seconds: 2})
	tell("deadline", map[string]any{"status": status.Code(err).String()})
}

func unknown(connection *grpc.ClientConn) {
	ctx, cancel := background()
	defer cancel()
	err := connection.Invoke(ctx, "/compat.shop.Shop/Refund", &shop.EchoRequest{}, &shop.EchoResponse{})
	tell("unknown", map[string]any{"status": status.Code(err).String()})
}

func oversized(client shop.ShopClient) {
	ctx, cancel := background()
	defer cancel()
	_, err := client.Echo(ctx, &shop.EchoRequest{Text: strings.Repeat("x", 16<<20+1)})
	response, again := client.Echo(ctx, &shop.EchoRequest{Text: "still there"})
	check(again)
	tell("oversized", map[string]any{"status": status.Code(err).String(), "then": response.GetResult()})
}

func headers(client shop.ShopClient) {
	ctx, cancel := background()
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "request-id", "a/1")
	response, err := client.Header(ctx, &shop.HeaderRequest{Name: "request-id"})
	check(err)
	tell("headers", map[string]any{"value": response.GetResult()})
}

func list(connection *grpc.ClientConn) {
	ctx, cancel := background()
	defer cancel()
	asked, err := reflection.NewServerReflectionClient(connection).ServerReflectionInfo(ctx)
	check(err)
	check(asked.Send(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_ListServices{},
	}))
	response, err := asked.Recv()
	check(err)
	names := []string{}
	for _, service := range response.GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	check(asked.CloseSend())
	tell("list", map[string]any{"names": names})
}

func tell(scenario string, got map[string]any) {
	got["scenario"] = scenario
	check(json.NewEncoder(os.Stdout).Encode(got))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
