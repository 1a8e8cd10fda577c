"""The differences that are wanted: which row of docs/compatibility.md explains what. The first that fits counts."""

from __future__ import annotations

from tools.compare.diffs import Known

_WHOLE = "*/extravars/_*"
_FAILING = "0[57]-*"
_RETRIES = "first retry after a failure"
_BRACES = "`status` and `metadata` of the whole-object variable"
_FILES = "run folder, artifacts, `latest`"

KNOWN: tuple[Known, ...] = (
    Known(row="user agent, and with it `manager` in `managedFields`", cases="*", paths="*/managedFields/*"),
    Known(row="task rescued in a block", cases="06-*", paths="rescued/*"),
    Known(row="unreachable host", cases="07-*", paths="unreachable/*"),
    Known(row="play that cannot start (syntax, unknown module)", cases="07-*", paths="unknown/*"),
    Known(row="`operator_sdk.util.requeue_after`", cases="09-*", paths="*"),
    Known(row="label change into the selector", cases="08-*", paths="label added where*"),
    Known(row="generation of a success", cases="*", paths="*/observedGeneration"),
    Known(row="place of a condition in the list", cases="*", paths="*/conditions/order/*"),
    Known(row="`lastTransitionTime`", cases="*", paths="*/transition time moved at each flip/*"),
    Known(row="environment in `artifacts/*/command`", cases="*", paths="*/command has environment"),
    Known(row="`TMPDIR` of a run", cases="*", paths="*/envvars/*KUBECONFIG", why="the kubeconfig lies there"),
    Known(row="cache of gathered facts", cases="*", paths="*/files/artifacts/RUN/fact_cache"),
    Known(row="`--rotate-artifacts`", cases="10-*", paths="*/runs kept"),
    Known(row=_FILES, cases="*", paths="*/files/*", why="modes", both=True),
    Known(
        row="connection variables in a spec",
        cases="01-*",
        paths="*/ansible_port",
    ),
    Known(row="message of a failed loop", cases="05-*", paths="failing: loop/*/Failure/message"),
    Known(row="message of a failed task with `no_log`", cases="05-*", paths="failing: no_log/*/Failure/message"),
    Known(row="message of a bad period annotation", cases="10-*", paths="a period that is none/status/*/message"),
    Known(row=_BRACES, cases="*", paths=f"{_WHOLE}/metadata/*", marked=True),
    Known(row=_BRACES, cases="*", paths=f"{_WHOLE}/status/*", marked=True),
    Known(
        row=_BRACES,
        cases="03-*",
        paths="templated/role saw/*/_compare_example_com_templated . metadata.*",
        why="the role sees the braces, not what they give",
    ),
    Known(
        row=_RETRIES,
        cases="10-*",
        paths="the period corrected/*",
        why="its retry was still pending when the change started a run",
    ),
    Known(row="whole-object variable where there is no spec", cases="*", paths=f"{_WHOLE}/spec"),
    Known(row=_RETRIES, cases=_FAILING, paths="repaired/*", why="other runs were seen, in another order"),
    Known(row=_RETRIES, cases="05-*", paths="failing: */states/*", why="its retry had begun when it was looked at"),
    Known(
        row=_RETRIES,
        cases="05-*",
        paths="failing: */extravars/_*/status/*",
        why="its retry had begun when it was looked at",
    ),
)
