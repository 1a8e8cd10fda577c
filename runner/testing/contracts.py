"""What an informer must do, whatever API server it talks to: run against the real one and against `FakeApiServer`.

A test module subclasses `InformerContract` and provides the fixture `site`.
"""

from __future__ import annotations

from runner.sources.informer import State
from runner.sources.store import ChangeKind
from runner.testing.cluster import CONFIG_MAPS
from runner.testing.faults import HttpFaultProxy, Rule, TcpFaultProxy, gone_event, status_body
from runner.testing.informers import Site, Watched, watching, with_settings
from runner.testing.waiting import eventually

_SECRETS = "/secrets"
_WATCH = r"/secrets\?.*watch=1"
_LIST = r"/secrets(\?(?!.*watch=1)|$)"


async def _barrier(site: Site, watched: Watched, *, name: str = "barrier") -> None:
    """Return when everything that happened before now was told."""
    await site.create(name)
    await watched.until(f"ADDED {name}")


class InformerContract:
    """Behaviour of `Informer` under everything that a server and a network do."""

    async def test_existing_objects_come_as_added_and_later_ones_live(self, site: Site) -> None:
        """An informer tells what exists once, and then each creation, update and deletion once, in order."""
        await site.create("a", "b")
        async with watching(site, kubeconfig=site.kubeconfig) as watched:
            assert sorted(watched.told()) == ["ADDED a", "ADDED b"]
            await site.touch("a")
            await site.create("c")
            await site.delete("b")
            await watched.until("DELETED b")
            assert watched.told()[2:] == ["MODIFIED a", "ADDED c", "DELETED b"]
            assert watched.changes[2].old is not None
            assert "labels" not in watched.changes[2].old["metadata"]
            assert watched.changes[2].obj["kind"] == "Secret"
            assert watched.informer.state is State.SYNCED

    async def test_listed_objects_carry_their_kind(self, site: Site) -> None:
        """Objects from a list have apiVersion and kind, though the server leaves them out of the items."""
        await site.create("a")
        async with watching(site, kubeconfig=site.kubeconfig) as watched:
            found = watched.informer.store.get(namespace=site.namespace, name="a")
            assert found is not None
            assert (found["apiVersion"], found["kind"]) == ("v1", "Secret")

    async def test_a_list_is_read_in_pages(self, site: Site) -> None:
        """A list longer than a page is read to its end, and no request asks for more than a page."""
        await site.create("a", "b", "c", "d", "e")
        async with (
            HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy,
            watching(
                site, kubeconfig=proxy.kubeconfig(site.folder / "proxy"), settings=with_settings(page_size=2)
            ) as watched,
        ):
            assert sorted(watched.told()) == [f"ADDED {name}" for name in "abcde"]
            lists = [r.path for r in proxy.requests if _SECRETS in r.path and not r.is_watch]
            assert len(lists) == 3
            assert all("limit=2" in path for path in lists)

    async def test_an_expired_continue_token_leads_to_one_full_list(self, site: Site) -> None:
        """When the server forgot how to continue a list, all is read in one answer and nothing comes twice."""
        await site.create("a", "b", "c", "d", "e")
        async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
            expired = proxy.rule(Rule(path=r"/secrets\?.*continue=", times=1, status=410))
            kubeconfig = proxy.kubeconfig(site.folder / "proxy")
            async with watching(site, kubeconfig=kubeconfig, settings=with_settings(page_size=2)) as watched:
                assert sorted(watched.told()) == [f"ADDED {name}" for name in "abcde"]
                assert expired.hits == 1
                lists = [r.path for r in proxy.requests if _SECRETS in r.path and not r.is_watch]
                assert ["limit" in path for path in lists] == [True, True, False]

    async def test_deletes_in_the_gap_of_a_410_are_told(self, site: Site) -> None:
        """After a 410 the new list is compared with the store: exactly what changed in the gap is told (case K1a)."""
        await site.create("keep", "gone", "changed", "again")
        async with (
            HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy,
            watching(site, kubeconfig=proxy.kubeconfig(site.folder / "proxy")) as watched,
        ):
            gap = proxy.rule(Rule(path=_SECRETS, hold=True))
            assert await proxy.inject(gone_event(), path=_WATCH) == 1
            await gap.wait_hit()
            before = len(watched.changes)
            await site.delete("gone", "again")
            await site.touch("changed")
            await site.create("new", "again")
            gap.release()
            await watched.until("ADDED new")
            await _barrier(site, watched)
            told = watched.told()[before:-1]
            assert told[:1] == ["DELETED gone"]
            assert sorted(told) == [
                "ADDED again", "ADDED new", "DELETED again", "DELETED gone", "MODIFIED changed",
            ]  # fmt: skip
            assert told.index("DELETED again") < told.index("ADDED again")
            assert watched.informer.state is State.SYNCED
            assert watched.informer.counters.relists == 1

    async def test_an_error_event_that_is_no_410_leads_to_a_new_list_too(self, site: Site) -> None:
        """An ERROR event of any code makes the informer list again, without a change of state."""
        await site.create("a")
        async with (
            HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy,
            watching(site, kubeconfig=proxy.kubeconfig(site.folder / "proxy")) as watched,
        ):
            await proxy.inject({"type": "ERROR", "object": status_body(500)}, path=_WATCH)
            await eventually(lambda: watched.informer.counters.rewatches == 1)
            await _barrier(site, watched)
            assert watched.told() == ["ADDED a", "ADDED barrier"]
            assert watched.informer.counters.relists == 1
            assert watched.informer.state is State.SYNCED

    async def test_a_malformed_line_does_not_end_the_watch(self, site: Site) -> None:
        """Garbage in the watch stream makes the informer list again; it goes on telling changes."""
        async with (
            HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy,
            watching(site, kubeconfig=proxy.kubeconfig(site.folder / "proxy")) as watched,
        ):
            lines: list[bytes] = [
                b"{ no json", b'"text"', b'{"type":"ADDED"}', b'{"type":"ADDED","object":{"metadata":{}}}',
                b'{"type":"SURPRISE","object":{"metadata":{"name":"x","resourceVersion":"1"}}}',
            ]  # fmt: skip
            for count, line in enumerate(lines, start=1):
                await eventually(lambda: proxy.watches(_WATCH) == 1)
                await proxy.inject(line, path=_WATCH)
                await watched.rewatched(count)
            await _barrier(site, watched)
            assert watched.told() == ["ADDED barrier"]
            assert watched.informer.counters.relists == len(lines)
            assert len(watched.sink.records) <= 3

    async def test_a_half_open_connection_is_noticed(self, site: Site) -> None:
        """A peer that says nothing for longer than the stall time-out counts as dead; no change is lost (K1b)."""
        await site.create("a")
        async with TcpFaultProxy.before(site.kubeconfig) as proxy:
            kubeconfig = proxy.kubeconfig(site.folder / "proxy", source=site.kubeconfig)
            async with watching(site, kubeconfig=kubeconfig, settings=with_settings(stall_timeout=1.0)) as watched:
                proxy.half_open()
                await site.delete("a")
                await site.create("b")
                await watched.until("DELETED a", "ADDED b")
                assert watched.told() == ["ADDED a", "DELETED a", "ADDED b"]
                assert proxy.accepted >= 2

    async def test_a_restarted_server_is_found_again(self, site: Site) -> None:
        """After reset connections and refused ones the watch goes on where it was, told in few log lines (K1d)."""
        await site.create("a")
        async with TcpFaultProxy.before(site.kubeconfig) as proxy:
            kubeconfig = proxy.kubeconfig(site.folder / "proxy", source=site.kubeconfig)
            async with watching(site, kubeconfig=kubeconfig) as watched:
                await proxy.refuse()
                await proxy.drop()
                await eventually(lambda: watched.informer.state is State.ERROR)
                await site.create("b")
                await site.delete("a")
                tries = watched.informer.counters.errors
                await eventually(lambda: watched.informer.counters.errors >= tries + 5)
                await proxy.accept()
                await watched.until("DELETED a")
                assert watched.told() == ["ADDED a", "ADDED b", "DELETED a"]
                assert watched.informer.state is State.SYNCED
                assert watched.informer.counters.relists == 0
                assert watched.sink.sentences() == [
                    "Watching",
                    "The watch was interrupted; resuming",
                    "The API server cannot be watched; retrying",
                    "Watching",
                ]

    async def test_a_server_out_of_order_for_a_while_costs_two_log_lines(self, site: Site) -> None:
        """Twenty 503 answers in a row change the state once and back once; changes in the gap are told."""
        await site.create("a")
        async with (
            HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy,
            watching(site, kubeconfig=proxy.kubeconfig(site.folder / "proxy")) as watched,
        ):
            trouble = proxy.rule(Rule(path=_SECRETS, status=503))
            await proxy.inject(gone_event(), path=_WATCH)
            await trouble.wait_hit(20)
            assert watched.informer.state is State.ERROR
            assert watched.informer.has_synced
            await site.delete("a")
            trouble.cancel()
            await watched.until("DELETED a")
            await eventually(lambda: watched.informer.state is State.SYNCED)
            assert len(watched.sink.records) == 3

    async def test_one_forbidden_kind_does_not_disturb_another(self, site: Site) -> None:
        """While a kind is forbidden others are served; it recovers when the right is granted."""
        async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
            kubeconfig = proxy.kubeconfig(site.folder / "proxy")
            denied = proxy.rule(Rule(path=_SECRETS, status=403))
            async with (
                watching(site, kubeconfig=kubeconfig, synced=False) as forbidden,
                watching(site, kubeconfig=kubeconfig, gvk=CONFIG_MAPS.gvk) as served,
            ):
                await denied.wait_hit(5)
                assert forbidden.informer.state is State.FORBIDDEN
                assert not forbidden.informer.has_synced
                await site.create("settings", resource=CONFIG_MAPS)
                await site.create("password")
                await served.until("ADDED settings")
                assert served.informer.counters.errors == 0
                denied.cancel()
                await forbidden.until("ADDED password")
                await eventually(lambda: forbidden.informer.state is State.SYNCED)
                assert len(forbidden.sink.records) <= 3

    async def test_a_lost_right_keeps_what_is_known(self, site: Site) -> None:
        """When the right to watch is taken away, known objects stay known and nothing is told as deleted."""
        await site.create("a")
        async with (
            HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy,
            watching(site, kubeconfig=proxy.kubeconfig(site.folder / "proxy")) as watched,
        ):
            proxy.rule(Rule(path=_SECRETS, status=403))
            await proxy.inject(gone_event(), path=_WATCH)
            await eventually(lambda: watched.informer.state is State.FORBIDDEN)
            assert watched.told() == ["ADDED a"]
            assert len(watched.informer.store) == 1

    async def test_a_single_404_is_not_believed(self, site: Site) -> None:
        """One 404 of a server that is just starting deletes nothing; only a second one in a row does."""
        await site.create("a")
        async with (
            HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy,
            watching(site, kubeconfig=proxy.kubeconfig(site.folder / "proxy")) as watched,
        ):
            once = proxy.rule(Rule(path=_LIST, status=404, times=1))
            await proxy.inject(gone_event(), path=_WATCH)
            await eventually(lambda: watched.informer.counters.rewatches == 1)
            assert once.hits == 1
            assert watched.told() == ["ADDED a"]
            missing = proxy.rule(Rule(path=_SECRETS, status=404))
            await proxy.inject(gone_event(), path=_WATCH)
            await watched.until("DELETED a")
            assert watched.informer.state is State.MISSING
            missing.cancel()
            await eventually(lambda: watched.told() == ["ADDED a", "DELETED a", "ADDED a"])

    async def test_trouble_while_paging_starts_the_list_anew(self, site: Site) -> None:
        """A connection lost between two pages costs a new list, and each object is told once (K1c)."""
        await site.create("a", "b", "c")
        async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
            proxy.rule(Rule(path=r"/secrets\?.*continue=", times=1, lose=True))
            kubeconfig = proxy.kubeconfig(site.folder / "proxy")
            async with watching(site, kubeconfig=kubeconfig, settings=with_settings(page_size=2)) as watched:
                assert sorted(watched.told()) == ["ADDED a", "ADDED b", "ADDED c"]
                assert watched.count(ChangeKind.ADDED) == 3

    async def test_an_ended_watch_goes_on_from_the_last_version(self, site: Site) -> None:
        """A watch that the server ends is opened again at the last resource version, without a new list."""
        await site.create("a")
        async with (
            HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy,
            watching(
                site, kubeconfig=proxy.kubeconfig(site.folder / "proxy"), settings=with_settings(watch_timeout=1.0)
            ) as watched,
        ):
            await eventually(lambda: proxy.watches(_WATCH) == 1)
            await proxy.end_watches(path=_WATCH)
            await eventually(lambda: watched.informer.counters.rewatches >= 1)
            await _barrier(site, watched)
            assert watched.told() == ["ADDED a", "ADDED barrier"]
            assert watched.informer.counters.relists == 0
            assert watched.informer.counters.errors == 0
