// node provider.mjs MODULES PORT CONSOLE LIFE_S: an OpenID Connect provider, the npm package oidc-provider, with two
// clients: `console` with a secret, `public` without one. Its own pages for development take any name and password.
// Access tokens are JWTs for the audience `hutong`. Prints a line when it listens, and one for each
// renewal of tokens.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [, , modules, port, console_, life_s] = process.argv;
const { Provider } = await import(pathToFileURL(createRequire(`${modules}/`).resolve("oidc-provider")).href);
const issuer = `http://127.0.0.1:${port}`;
const shared = {
  redirect_uris: [`${console_}/api/session/provider/return`],
  post_logout_redirect_uris: [`${console_}/`],
  grant_types: ["authorization_code", "refresh_token"],
};
const provider = new Provider(issuer, {
  clients: [
    { client_id: "console", client_secret: "of the console", ...shared },
    { client_id: "public", token_endpoint_auth_method: "none", ...shared },
  ],
  scopes: ["openid", "offline_access", "kafka"],
  ttl: { AccessToken: Number(life_s), IdToken: 300, RefreshToken: 3600, Session: 3600, Grant: 3600, Interaction: 600, AuthorizationCode: 60 },
  issueRefreshToken: async () => true,
  pkce: { required: () => true },
  features: {
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => "urn:hutong",
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope: "kafka", audience: "hutong", accessTokenFormat: "jwt", accessTokenTTL: Number(life_s) }),
    },
  },
});
provider.on("server_error", (_, error) => console.error(error));
provider.on("grant.error", (_, error) => console.error("grant", error.message, error.error_description));
provider.on("grant.success", (ctx) => ctx.oidc.params.grant_type === "refresh_token" && console.log("renewed", Date.now() / 1000));
provider.on("authorization.error", (_, error) => console.error("authorization", error.error_description));
provider.listen(Number(port), "127.0.0.1", () => console.log(issuer));
