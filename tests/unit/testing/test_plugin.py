"""The pytest plugin, by small test suites that are run with it: what tests share, what they are given, what is told.

Run in this process wherever that shows the same; what must not be imported, and what is left, needs one of its own.
"""

import contextlib
import importlib
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
PLUGIN = ("-p", "hutong.testing.plugin", "-p", "no:cacheprovider", "-W", "error")
# A run in this process forgets, at its end, what it was the first to import: what takes long is imported before.
HEAVY = [
    importlib.import_module(f"hutong.{name}")
    for name in ("testing.fixtures.sharing", "testing.fixtures.clusters", "server.cluster.cluster_verticle")
]


@pytest.fixture(autouse=True)
def _only_our_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def ini(pytester: pytest.Pytester, *lines: str) -> None:
    pytester.makeini("\n".join(["[pytest]", *lines]))


def passed(pytester: pytest.Pytester, count: int, *arguments: str) -> None:
    pytester.runpytest_inprocess(*PLUGIN, *arguments).assert_outcomes(passed=count)


def told(pytester: pytest.Pytester, *lines: str) -> None:
    """The run ends at once with these words and without a trace of ours."""
    result = pytester.runpytest_inprocess(*PLUGIN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *" + line for line in lines])
    assert "Traceback" not in str(result.stderr)


# -- what tests share


def test_each_test_has_its_own_node(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        seen = set()

        def test_one(hutong_node, kafka_bootstrap):
            hutong_node.produce("t", "x")
            assert kafka_bootstrap == hutong_node.bootstrap
            seen.add(hutong_node)

        def test_two(hutong_node):
            assert hutong_node.topics() == {}
            seen.add(hutong_node)
            assert len(seen) == 2
        """
    )
    passed(pytester, 2)


@pytest.mark.parametrize(("scope", "counts"), [("function", "4"), ("class", "3"), ("module", "2"), ("session", "1")])
def test_nodes_are_shared_as_the_ini_file_says(pytester: pytest.Pytester, scope: str, counts: str) -> None:
    ini(pytester, f"hutong_scope = {scope}")
    pytester.makeconftest("seen = set()")
    pytester.makepyfile(
        test_a="""
        from conftest import seen

        class TestOne:
            def test_one(self, hutong_node):
                seen.add(hutong_node.bootstrap)

            def test_two(self, hutong_node):
                seen.add(hutong_node.bootstrap)

        def test_three(hutong_node):
            seen.add(hutong_node.bootstrap)
        """,
        test_b=f"""
        from conftest import seen

        def test_four(hutong_node):
            seen.add(hutong_node.bootstrap)
            assert len(seen) == {counts}
        """,
    )
    pytester.syspathinsert()
    passed(pytester, 4)


def test_a_marker_says_otherwise(pytester: pytest.Pytester) -> None:
    ini(pytester, "hutong_scope = session", "hutong_settings = topic.default_partitions=2")
    pytester.makepyfile(
        """
        import pytest

        seen = []

        def test_shared(hutong_node, hutong_shared_node):
            assert hutong_node is hutong_shared_node
            hutong_node.produce("t", "x")
            assert hutong_node.topics() == {"t": 2}
            seen.append(hutong_node)

        @pytest.mark.hutong_node(scope="function", settings={"topic.default_partitions": 3})
        class TestOwn:
            def test_own(self, hutong_node):
                assert hutong_node is not seen[0]
                hutong_node.produce("t", "x")
                assert hutong_node.topics() == {"t": 3}

            @pytest.mark.hutong_node(settings={"topic.auto_create": "false"})
            def test_nearest(self, hutong_node):
                assert hutong_node.topics() == {}
                with pytest.raises(AssertionError, match="there is no topic t"):
                    hutong_node.produce("t", "x")

        def test_shared_again(hutong_node):
            assert hutong_node is seen[0]
        """
    )
    passed(pytester, 4)


def test_a_fixture_of_the_session_may_use_the_node_of_the_session(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def address(hutong_shared_node):
            return hutong_shared_node.bootstrap

        @pytest.mark.hutong_node(scope="session")
        def test_it(address, kafka_bootstrap):
            assert address == kafka_bootstrap

        def test_own(address, kafka_bootstrap):
            assert address != kafka_bootstrap
        """
    )
    passed(pytester, 2)


def test_data_are_in_memory_or_in_a_folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    ini(pytester, "hutong_data = folder")
    pytester.makepyfile(
        """
        import pytest

        def test_folder(hutong_node, tmp_path_factory):
            hutong_node.produce("t", "x")
            assert list(tmp_path_factory.getbasetemp().glob("hutong*/groups/*/*.journal"))

        @pytest.mark.hutong_node(data="memory")
        def test_memory(hutong_node, tmp_path_factory):
            assert len(list(tmp_path_factory.getbasetemp().glob("hutong[0-9]*"))) == 1
        """
    )
    passed(pytester, 2)


def test_each_test_has_its_own_bus_also_on_a_shared_node(pytester: pytest.Pytester) -> None:
    ini(pytester, "hutong_scope = module")
    pytester.makepyfile(
        """
        import pytest
        from hutong.bus.errors import ReplyError

        def test_one(hutong_bus, hutong_node):
            assert hutong_bus is hutong_node.bus
            hutong_bus.consumer("price", lambda message: message.reply(3))
            assert hutong_bus.request("price").result(10).body == 3

        def test_two(hutong_bus):
            with pytest.raises(ReplyError):
                hutong_bus.request("price").result(10)
        """
    )
    passed(pytester, 2)


# -- topics


def test_topics_are_there_and_empty(pytester: pytest.Pytester) -> None:
    ini(pytester, "hutong_scope = module")
    pytester.makepyfile(
        """
        import pytest

        pytestmark = [pytest.mark.hutong_topic("orders"), pytest.mark.hutong_topic("kept", keep=True)]

        @pytest.mark.hutong_topic("orders", partitions=3, config={"retention.ms": "1000"})
        def test_nearest_wins(hutong_node):
            assert hutong_node.topics() == {"orders": 3, "kept": 1}
            hutong_node.produce("orders", "x")
            hutong_node.produce("kept", "x")

        def test_emptied(hutong_node):
            assert hutong_node.topics() == {"orders": 1, "kept": 1}
            assert hutong_node.records("orders") == []
            assert len(hutong_node.records("kept")) == 1

        @pytest.mark.hutong_topic("kept", partitions=2, keep=True)
        def test_kept_but_different(hutong_node):
            pass
        """
    )
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*hutong_topic: kept is to be kept as it is and has 1 partitions, not 2"])


def test_a_setting_that_no_topic_has_fails_the_test_with_the_words_of_the_node(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.hutong_topic("orders", config={"retention.mss": "1000"})
        def test_it(hutong_node):
            pass

        @pytest.mark.hutong_node(settings={"log.retention_mss": "1"})
        def test_setting(hutong_node):
            pass
        """
    )
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        [
            "*hutong_node: cannot create the topic orders: *retention.mss*(INVALID_CONFIG)",
            "*hutong_node: Unknown setting log.retention_mss (argument); did you mean log.retention_ms?",
        ]
    )
    assert "Traceback" not in str(result.stdout)


# -- clusters


def test_a_cluster_is_what_its_markers_ask_for(pytester: pytest.Pytester) -> None:
    ini(pytester, "hutong_settings = topic.auto_create=false")
    pytester.makepyfile(
        """
        import pytest

        seen = set()

        @pytest.mark.hutong_topic("orders", partitions=2)
        @pytest.mark.hutong_cluster(nodes=2, settings={"cluster.slots": "1"})
        def test_two_nodes(hutong_cluster):
            assert [node.number for node in hutong_cluster.nodes] == [1, 2]
            assert hutong_cluster.topics() == {"orders": 2}
            assert hutong_cluster.leader_of("orders", 0) == hutong_cluster.leader_of("orders", 1)
            seen.add(hutong_cluster)

        def test_three(hutong_cluster):
            assert len(hutong_cluster.bootstrap.split(",")) == 3
            assert hutong_cluster.topics() == {}
            assert hutong_cluster not in seen
            with pytest.raises(AssertionError, match="there is no topic t"):
                hutong_cluster.produce("t", "x")
        """
    )
    passed(pytester, 2)


def test_a_setting_that_no_cluster_takes_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.hutong_cluster(settings={"cluster.coordinator": "zk://127.0.0.1:2181/x"})
        def test_it(hutong_cluster):
            pass
        """
    )
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*hutong_cluster: cluster.coordinator is the embedded cluster's own to choose*"])


# -- what is told


@pytest.mark.parametrize(
    ("marker", "line"),
    [
        ('hutong_topics("orders")', "unknown marker hutong_topics; did you mean hutong_topic?"),
        ('hutong_topic("or ders")', "'or ders' is no name for a topic: 1 to 249 letters, *"),
        ("hutong_topic()", 'hutong_topic needs the name of a topic: hutong_topic("orders")'),
        ('hutong_topic("orders", partition=3)', "hutong_topic takes no partition; did you mean partitions?"),
        ('hutong_topic("orders", 3)', "hutong_topic takes name and then partitions=, config=, keep=; 3 is too much"),
        (
            'hutong_topic("orders", partitions="3")',
            "topic orders needs a whole number of partitions, 1 or more, not '3'",
        ),
        ('hutong_topic("orders", config="x")', "the config of topic orders is a dict such as *, not 'x'"),
        ('hutong_node(scope="modul")', "hutong_node(scope=) is 'modul'; choose function, class, module or session"),
        ('hutong_node(data="disk")', "hutong_node(data=) is 'disk'; choose memory or folder"),
        ('hutong_node(settings="x")', "hutong_node(settings=) is a dict such as *, not 'x'"),
        (
            'hutong_topic("orders")',
            "hutong_topic does nothing without a node; ask for hutong_node, kafka_bootstrap or *",
        ),
        ('hutong_node(topic="x")', "hutong_node takes no topic; there are scope, data, settings, users"),
        ("hutong_cluster(nodes=0)", "hutong_cluster(nodes=) is 1 to 15, not 0"),
        ("hutong_cluster(node=3)", "hutong_cluster takes no node; did you mean nodes?"),
        ("hutong_cluster()", "hutong_cluster does nothing without a cluster; ask for the fixture hutong_cluster"),
    ],
)
def test_a_wrong_marker_is_told_before_any_test_runs(pytester: pytest.Pytester, marker: str, line: str) -> None:
    pytester.makepyfile(f"import pytest\n\n@pytest.mark.{marker}\ndef test_it(): pass")
    result = pytester.runpytest_inprocess(*PLUGIN, "-W", "ignore")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *::test_it: *{line}".replace("[", "[[]")])
    assert "Traceback" not in str(result.stderr)


def test_a_marker_for_many_may_have_no_effect_on_some(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.hutong_topic("orders")

        @pytest.mark.hutong_node(scope="module")
        class TestBoth:
            def test_without(self): pass

            def test_with(self, kafka_bootstrap): pass
        """
    )
    passed(pytester, 2)


def test_a_wrong_marker_fails_its_test_where_a_worker_may_not_end_the_run(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("def pytest_configure(config): config.workerinput = {}")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.hutong_topic("or ders")
        def test_wrong(): pass

        def test_right(): pass
        """
    )
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*::test_wrong: hutong_topic: 'or ders' is no name for a topic*"])


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("hutong_scop = module", "unknown option hutong_scop in the ini file; did you mean hutong_scope?"),
        ("hutong_scope = test", "hutong_scope is 'test'; choose function, class, module or session"),
        ("hutong_data = ram", "hutong_data is 'ram'; choose memory or folder"),
        ("hutong_settings = log.retention_ms", "hutong_settings: 'log.retention_ms' is not of the form name=value"),
    ],
)
def test_a_wrong_option_is_told_before_any_test_runs(pytester: pytest.Pytester, option: str, line: str) -> None:
    ini(pytester, option)
    told(pytester, line)


def test_markers_are_shown_and_strictly_known(pytester: pytest.Pytester) -> None:
    pytester.runpytest_inprocess(*PLUGIN, "--markers").stdout.fnmatch_lines(
        ["@pytest.mark.hutong_topic(name, partitions=1*", "@pytest.mark.hutong_node(scope=*"]
    )
    pytester.makepyfile('import pytest\n@pytest.mark.hutong_topic("t")\ndef test_it(hutong_node): pass')
    passed(pytester, 1, "--strict-markers")


def test_a_wait_that_fails_shows_the_line_of_the_test_and_what_was_there(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(hutong_node):
            hutong_node.produce("orders", "paid")
            hutong_node.records("orders", count=2, timeout=0.02)
        """
    )
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            '>*hutong_node.records("orders", count=2, timeout=0.02)',
            "E*WaitFailed: 2 records of orders did not come within 0.02 s; there is 1:",
            "E*orders/0@0 value=b'paid'",
        ]
    )
    assert "embedded.py" not in str(result.stdout)


# -- what is left


def test_a_shared_node_is_mended_for_the_next_test(pytester: pytest.Pytester) -> None:
    ini(pytester, "hutong_scope = session")
    pytester.makepyfile(
        """
        import pytest

        def test_kills(hutong_node):
            hutong_node.produce("t", "x")
            hutong_node.faults.fill_disk()
            hutong_node.kill()

        def test_breaks(hutong_node):
            assert hutong_node.is_running
            hutong_node.produce("t", "y")
            hutong_node.faults.refuse_connections()
            hutong_node.faults.fail_fsync()
            with pytest.raises(Exception, match="KAFKA_STORAGE_ERROR"):
                hutong_node.produce("t", "lost")

        def test_finds_it_sound(hutong_node):
            hutong_node.produce("t", "z")
            texts = [record.text for record in hutong_node.records("t")]
            assert texts[:2] == ["x", "y"]
            assert texts[-1] == "z"
        """
    )
    passed(pytester, 3)


class LeftOpen:
    """A plugin that hands out a list for clients which nobody closes during the run."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []

    @pytest.fixture
    def left_open(self) -> list[socket.socket]:
        return self.sockets


@pytest.mark.parametrize("end", ["raise RuntimeError", "raise KeyboardInterrupt", "pytest.exit('enough')"])
def test_nothing_is_left_of_a_run_that_ends_badly(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # apart from other processes
    ini(pytester, "hutong_scope = session")
    pytester.makepyfile(
        f"""
        import socket
        import pytest

        def test_it(hutong_node, kafka_bootstrap, left_open):
            host, port = kafka_bootstrap.split(":")
            left_open.append(socket.create_connection((host, int(port))))
            hutong_node.faults.delay_answers(60_000)
            {end}
        """
    )
    threads = set(threading.enumerate())
    clients = LeftOpen()
    with contextlib.ExitStack() as stack:
        if "Interrupt" in end:
            stack.enter_context(pytest.raises(KeyboardInterrupt))
        pytester.runpytest_inprocess(*PLUGIN, plugins=[clients])
    for client in clients.sockets:
        client.close()
    assert clients.sockets
    assert set(threading.enumerate()) == threads
    assert list(tmp_path.glob("hutong-testing-*")) == []


def test_a_run_without_our_fixtures_imports_no_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            heavy = {"uvloop", "msgspec", "crc32c", "confluent_kafka"}
            # From 3.14 on pytest has asyncio by pdb.
            heavy |= {"asyncio"} if sys.version_info < (3, 14) else set()
            ours = {name for name in sys.modules if name.startswith("hutong.")}
            assert heavy.isdisjoint(sys.modules), heavy & set(sys.modules)
            expected = ("", ".fixtures", ".fixtures.requirements", ".plugin", ".values")
            small = {"hutong.foundation", "hutong.foundation.lazy_exports"}
            assert ours <= {f"hutong.testing{name}" for name in expected} | small
        """
    )
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLUGIN], cwd=pytester.path, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
