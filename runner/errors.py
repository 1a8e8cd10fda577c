"""The tree of our own errors: the lowest module, seen by every stage of the flow.

Each error has a `verdict`: `RETRY` with back-off, `RETRY_AT` after `retry_after` seconds, or `TERMINAL`: only a change
by a person helps. At the start a terminal error ends the process; a reconcile logs the word and backs off as for
`RETRY`, as nobody tells when that person was there.

    OperatorError
    ├── ConfigError              a file or flag is wrong                       TERMINAL
    ├── KubeError                the API server refused or could not answer    RETRY
    │   ├── NotFound             the object or its kind is gone                TERMINAL
    │   ├── Conflict             somebody wrote in between: re-read, repeat    RETRY
    │   ├── AlreadyExists        the name is taken: adopt ours, else report    TERMINAL
    │   ├── Gone                 the resource version is too old: list again   RETRY
    │   ├── Unauthorized         the credentials are not accepted any more     RETRY
    │   ├── Forbidden            a right is missing                            RETRY_AT (slow)
    │   ├── Invalid              the API server's validation refused the body  TERMINAL
    │   ├── TooManyRequests      the server asks for patience (Retry-After)    RETRY_AT
    │   ├── ServerError          5xx                                           RETRY
    │   └── ConnectionFailed     no answer: refused, reset, timed out          RETRY
    ├── StatusWriteExhausted     a status write used up its tries or its time  RETRY
    ├── ExecutionError           a run could not be prepared or started        RETRY
    ├── LeaderElectionLost       another instance may work now: exit, restart  RETRY
    └── LocalPlaneError          the local control plane cannot be had         TERMINAL
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.Enum):
    """What helps against an error; a reconcile treats `TERMINAL` as `RETRY`, see above."""

    RETRY = "retry"
    RETRY_AT = "retry-at"
    TERMINAL = "terminal"


class OperatorError(Exception):
    """Base of everything that this package raises on purpose."""

    verdict = Verdict.RETRY
    retry_after: float | None = None
    """Seconds to wait, for `RETRY_AT`; None elsewhere."""


class ConfigError(OperatorError):
    """A file, field or flag is wrong; the message names it and the remedy."""

    verdict = Verdict.TERMINAL


@dataclass(frozen=True, kw_only=True)
class Call:
    """The API call that an error belongs to: what a person needs to grant a right or find an object."""

    verb: str
    resource: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return the call as a person would say it: `patch ec2instances.aws.example.com/status web in default`."""
        parts = [self.verb, self.resource, self.name]
        text = " ".join(part for part in parts if part)
        return f"{text} in namespace {self.namespace}" if self.namespace else text


class KubeError(OperatorError):
    """An answer of the API server that is no success, or no answer at all."""

    def __init__(self, message: str, *, call: Call, status: int = 0, retry_after: float | None = None) -> None:
        """Keep the server's own *message*, the *call*, the HTTP *status* (0: none) and Retry-After in seconds."""
        super().__init__(f"{call}: {message}" if message else str(call))
        self.message = message
        self.call = call
        self.status = status
        self.retry_after = retry_after


class NotFound(KubeError):
    """404: the object, or its whole kind, does not exist."""

    verdict = Verdict.TERMINAL
    names_object = False
    """The API server names the object, so it knows its kind; a kind that it doesn't serve is a bare 404."""


class Conflict(KubeError):
    """409 Conflict: the object changed since it was read."""


class AlreadyExists(KubeError):
    """409 AlreadyExists: an object of this name is there."""

    verdict = Verdict.TERMINAL


class Gone(KubeError):
    """410: the resource version or continue token is too old."""


class Unauthorized(KubeError):
    """401: the credentials are not accepted."""


class Forbidden(KubeError):
    """403: a right is missing; retried slowly, as somebody may grant it."""

    verdict = Verdict.RETRY_AT

    def __init__(self, message: str, *, call: Call, status: int = 403, retry_after: float | None = None) -> None:
        """Wait at least 30 seconds: a grant is the work of a person."""
        super().__init__(message, call=call, status=status, retry_after=max(retry_after or 0.0, 30.0))


class Invalid(KubeError):
    """422 or 400: the body is refused, and would be again."""

    verdict = Verdict.TERMINAL


class TooManyRequests(KubeError):
    """429: asked to wait."""

    verdict = Verdict.RETRY_AT

    def __init__(self, message: str, *, call: Call, status: int = 429, retry_after: float | None = None) -> None:
        """Wait as long as the server says, one second where it doesn't."""
        super().__init__(message, call=call, status=status, retry_after=1.0 if retry_after is None else retry_after)


class ServerError(KubeError):
    """5xx: the server's own trouble."""


class ConnectionFailed(KubeError):
    """No answer: connection refused or reset, TLS failure, time-out."""


class StatusWriteExhausted(OperatorError):
    """A status did not get through: it is kept, and written again from the queue without a new run."""

    def __init__(self, *, last: KubeError, attempts: int, seconds: float) -> None:
        """Tell the *last* error after *attempts* tries in *seconds*; a Retry-After that it brought still counts."""
        super().__init__(f"status not written after {attempts} tries in {seconds:.1f} s, the last error was: {last}")
        self.last = last
        self.attempts = attempts
        self.seconds = seconds
        self.retry_after = last.retry_after
        self.verdict = Verdict.RETRY if last.retry_after is None else Verdict.RETRY_AT


class ExecutionError(OperatorError):
    """A run of Ansible could not be prepared or started."""


class LeaderElectionLost(OperatorError):
    """This instance led and may not write any more; the text is controller-runtime's, people search logs for it."""

    def __init__(self) -> None:
        """Say no more: the reason stands in the log line before."""
        super().__init__("leader election lost")


class LocalPlaneError(OperatorError):
    """The local control plane, its binaries or the EC2 emulator cannot be had."""

    verdict = Verdict.TERMINAL
