"""The capability broker's client for skills in Python 3.8 or later.

Copy this file beside the skill's main; it needs the standard library alone.

    import cyberos

    with cyberos.Client() as broker:
        note = broker.call("MemoryRead", path="memories/notes/monday")
        try:
            broker.call("Write", path="/srv/out.txt", body=note["body"])
        except cyberos.FileViolation as e:
            print(e.hint)

Every answer that is no result is an exception: Refused (the grant does not
have it; a subclass for each class and reason), Failed (the tool ran and
failed; a subclass for each word), BadArguments, or Gone (there is no broker).
A client may be used by several threads: their calls are at work at the same
time. See cyberos-client(7).

SPDX-License-Identifier: ISC
"""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import threading
from typing import Any, Dict, List, Mapping, NoReturn, Optional, Tuple, Type

REQUEST_MAX = 1048576  # what the broker takes; it refuses and records more
SEND_MAX = 16 * 1024 * 1024  # more is not even sent
ANSWER_MAX = 17 * 1024 * 1024
DEPTH_MAX = 62  # levels from "params" on; the broker's 64 begin one above


class Error(Exception):
    """Whatever a call raises."""


class Gone(Error, ConnectionError):
    """No broker, or its connection is lost or no longer understood."""


class BadArguments(Error, ValueError):
    """The call is malformed: which argument, and why, is its text."""

    def __init__(self, text: str, code: int = -32602) -> None:
        super().__init__(text)
        self.code = code


class Failed(Error):
    """The tool was allowed, ran and failed."""

    def __init__(self, word: str, detail: str = "") -> None:
        super().__init__(f"{word}: {detail}" if detail else word)
        self.word = word
        self.detail = detail


class Refused(Error):
    """The call was refused; nothing ran."""

    def __init__(self, group: str, data: Mapping[str, Any]) -> None:
        self.group = group  # the class: "file_violation"
        self.reason = _text(data, "reason") or group  # "protected"
        self.hint = _text(data, "hint")  # what the author could change
        self.tool = _text(data, "tool")
        wait = data.get("retry_after_ms")
        self.retry_after_ms = wait if isinstance(wait, int) else None
        word = group if self.reason == group else f"{group} ({self.reason})"
        super().__init__(f"{word}: {self.hint}" if self.hint else word)


# A class of refusals each, and below it the reasons that have another word.
class RateLimited(Refused): ...
class UnknownTool(Refused): ...
class ToolNotAllowed(Refused): ...
class ScopeViolation(Refused): ...
class FileViolation(Refused): ...
class DomainViolation(Refused): ...
class RequestTooLarge(Refused): ...
class Deadline(Refused): ...
class AuditUnavailable(Refused): ...
class AuditBudget(Refused): ...
class Ceiling(Refused): """The operator's ceiling leaves it out."""
class ToolInDisallowedTools(ToolNotAllowed): ...
class ToolNotInAllowedTools(ToolNotAllowed): ...
class ToolCeiling(ToolNotAllowed, Ceiling): ...
class ScopeCeiling(ScopeViolation, Ceiling): ...
class FileCeiling(FileViolation, Ceiling): ...
class Protected(FileViolation): ...
class HardLink(FileViolation): ...
class PrivilegedFile(FileViolation): ...
class DomainCeiling(DomainViolation, Ceiling): ...
class AddressNotPublic(DomainViolation): ...

# A word of failure each.
class NotFound(Failed): ...
class Exists(Failed): ...
class IsADirectory(Failed): ...
class Permission(Failed): ...
class TooLarge(Failed): ...
class NotUnique(Failed): ...
class Timeout(Failed): ...
class Cancelled(Failed): ...
class NoSpace(Failed): ...
class IoError(Failed): ...
class InvalidPattern(Failed): ...
class TooComplex(Failed): ...
class HttpError(Failed): ...
class TlsError(Failed): ...
class ResolveError(Failed): ...
class ConnectError(Failed): ...


REFUSALS: Dict[Tuple[str, str], Type[Refused]] = {
    ("rate_limited", "rate_limited"): RateLimited,
    ("unknown_tool", "unknown_tool"): UnknownTool,
    ("tool_not_allowed", "tool_in_disallowed_tools"): ToolInDisallowedTools,
    ("tool_not_allowed", "tool_not_in_allowed_tools"): ToolNotInAllowedTools,
    ("tool_not_allowed", "ceiling"): ToolCeiling,
    ("scope_violation", "scope_violation"): ScopeViolation,
    ("scope_violation", "ceiling"): ScopeCeiling,
    ("file_violation", "file_violation"): FileViolation,
    ("file_violation", "ceiling"): FileCeiling,
    ("file_violation", "protected"): Protected,
    ("file_violation", "hard_link"): HardLink,
    ("file_violation", "privileged_file"): PrivilegedFile,
    ("domain_violation", "domain_violation"): DomainViolation,
    ("domain_violation", "ceiling"): DomainCeiling,
    ("domain_violation", "address_not_public"): AddressNotPublic,
    ("request_too_large", "request_too_large"): RequestTooLarge,
    ("deadline", "deadline"): Deadline,
    ("audit_unavailable", "audit_unavailable"): AuditUnavailable,
    ("audit_budget", "audit_budget"): AuditBudget,
}

# What a reason becomes that a later broker adds to a class.
GROUPS: Dict[str, Type[Refused]] = {
    **{group: of for (group, reason), of in REFUSALS.items()
       if group == reason},
    "tool_not_allowed": ToolNotAllowed,
}

FAILURES: Dict[str, Type[Failed]] = {
    "not_found": NotFound,
    "exists": Exists,
    "is_a_directory": IsADirectory,
    "permission": Permission,
    "too_large": TooLarge,
    "not_unique": NotUnique,
    "timeout": Timeout,
    "cancelled": Cancelled,
    "no_space": NoSpace,
    "io_error": IoError,
    "invalid_pattern": InvalidPattern,
    "too_complex": TooComplex,
    "http_error": HttpError,
    "tls_error": TlsError,
    "resolve_error": ResolveError,
    "connect_error": ConnectError,
}


def body(result: Mapping[str, Any], name: str = "body") -> bytes:
    """The body of a result, or its stdout or stderr, as bytes."""
    text = str(result[name])
    if result.get("encoding") == "base64":
        return base64.b64decode(text)
    return text.encode()


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _raise(error: Any) -> NoReturn:
    """The exception for an error object of JSON-RPC."""
    if not isinstance(error, dict):
        error = {}
    data = error.get("data")
    if not isinstance(data, dict):
        data = {}
    word = _text(error, "message")
    code = error.get("code")
    if code == -32603:
        reason = _text(data, "reason") or word
        kind = REFUSALS.get((word, reason)) or GROUPS.get(word) or Refused
        raise kind(word, data)
    if code == -32000:
        raise FAILURES.get(word, Failed)(word, _text(data, "detail"))
    raise BadArguments(_text(data, "detail") or word,
                       code if isinstance(code, int) else 0)


def _check(value: Any, depth: int = 0) -> None:
    """What JSON can say and the broker does not take."""
    if depth > DEPTH_MAX and isinstance(value, (dict, list, tuple)):
        raise BadArguments("the arguments are nested too deeply")
    if isinstance(value, str):
        if "\0" in value:
            raise BadArguments("a text holds a NUL; send bytes as base64")
    elif isinstance(value, int):
        if abs(value) > 2**53 - 1:
            raise BadArguments(f"{value} is beyond 2^53")
    elif isinstance(value, dict):
        for name, of in value.items():
            if not isinstance(name, str):
                raise BadArguments(f"{name!r} is no name of a member")
            _check(name)
            _check(of, depth + 1)
    elif isinstance(value, (list, tuple)):
        for of in value:
            _check(of, depth + 1)


def _encode(request: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(request, ensure_ascii=False, allow_nan=False,
                          separators=(",", ":")).encode()
    except (TypeError, ValueError) as e:
        raise BadArguments(f"the arguments are no JSON: {e}") from e


class Client:
    """One connection to the broker, for any number of calls and threads."""

    def __init__(self, path: Optional[str] = None) -> None:
        """Connect to path, by default $CYBEROS_BROKER_SOCKET."""
        if path is None:
            path = os.environ.get("CYBEROS_BROKER_SOCKET")
        if not path:
            raise Gone("CYBEROS_BROKER_SOCKET is not set: "
                       "this is for skills, inside the sandbox")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
        except OSError as e:
            self._socket.close()
            raise Gone(f"{path}: {e}") from e
        self._sending = threading.Lock()
        # Below: guarded by _turn, whose holder may also be the one that reads.
        self._turn = threading.Condition()
        self._reading = False
        self._last = 0
        self._asked: Dict[int, int] = {}  # request: bytes, oldest first
        self._answers: Dict[int, Dict[str, Any]] = {}
        self._gone: Optional[str] = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, tool: str, args: Optional[Mapping[str, Any]] = None, /, *,
             traceparent: Optional[str] = None,
             tracestate: Optional[str] = None, **more: Any) -> Dict[str, Any]:
        """Call a tool, with its arguments as a mapping, by name, or both.

        A body of type bytes goes as base64. Returns the tool's result.
        """
        whole = {**(args or {}), **more}
        if isinstance(whole.get("body"), (bytes, bytearray)):
            whole["body"] = base64.b64encode(whole["body"]).decode()
            whole.setdefault("encoding", "base64")
        params: Dict[str, Any] = {"tool": tool, "args": whole}
        if traceparent is not None:
            params["traceparent"] = traceparent
        if tracestate is not None:
            params["tracestate"] = tracestate
        return self._ask("tool.call", params)

    def tools(self) -> List[Dict[str, Any]]:
        """The tools that this skill may call: name, description, inputSchema."""
        found: List[Dict[str, Any]] = self._ask("tool.list", None)["tools"]
        return found

    def status(self) -> Dict[str, Any]:
        """invocation_id, skill_id, version, uptime_ms, remaining_ms, calls,
        denied."""
        return self._ask("broker.status", None)

    def close(self) -> None:
        """Hang up; calls of other threads that still wait are Gone."""
        self._lose("closed")
        with self._sending:
            self._socket.close()

    def _ask(self, method: str, params: Optional[Dict[str, Any]]
             ) -> Dict[str, Any]:
        _check(params)
        answer = self._wait(self._send(method, params))
        if "error" in answer:
            _raise(answer["error"])
        result = answer.get("result")
        if not isinstance(result, dict):
            self._lose("an answer without a result")
            raise Gone("an answer without a result")
        return result

    def _send(self, method: str, params: Optional[Dict[str, Any]]) -> int:
        request: Dict[str, Any] = {"jsonrpc": "2.0", "id": 0, "method": method}
        if params is not None:
            request["params"] = params
        with self._sending:
            self._last += 1
            request["id"] = self._last
            text = _encode(request)
            if len(text) > SEND_MAX:
                raise RequestTooLarge("request_too_large", {
                    "hint": f"send at most {REQUEST_MAX} bytes in one "
                            "request"})
            with self._turn:
                if self._gone is not None:
                    raise Gone(self._gone)
                self._asked[self._last] = len(text)
            try:
                self._socket.sendall(struct.pack(">I", len(text)) + text)
            except BaseException as e:  # half a message may be sent
                self._lose(str(e))
                if isinstance(e, OSError):
                    raise Gone(str(e)) from e
                raise
            return self._last

    def _wait(self, number: int) -> Dict[str, Any]:
        """The answer to a request. One thread reads for all that wait."""
        with self._turn:
            try:
                while number not in self._answers:
                    if self._gone is not None:
                        raise Gone(self._gone)
                    if self._reading:
                        self._turn.wait()
                        continue
                    self._reading = True
                    self._turn.release()
                    try:
                        answer = self._receive()
                    finally:
                        self._turn.acquire()
                        self._reading = False
                        self._turn.notify_all()
                    self._file(answer)
                return self._answers[number]
            finally:
                self._asked.pop(number, None)
                self._answers.pop(number, None)

    def _file(self, answer: Dict[str, Any]) -> None:
        number = answer.get("id")
        if number is None:
            number = self._anonymous(answer)
        if isinstance(number, int) and number in self._asked:
            self._answers[number] = answer
        elif not isinstance(number, int) or not 0 < number <= self._last:
            self._lose("an answer to no request of ours")

    def _anonymous(self, answer: Mapping[str, Any]) -> Optional[int]:
        """Whose answer has no id: what was too large to be read has none."""
        waiting = [n for n in self._asked if n not in self._answers]
        error = answer.get("error")
        if isinstance(error, dict) and (
                error.get("message") == "request_too_large"):
            waiting = [n for n in waiting if self._asked[n] > REQUEST_MAX][:1]
        return waiting[0] if len(waiting) == 1 else None

    def _receive(self) -> Dict[str, Any]:
        try:
            length, = struct.unpack(">I", self._exactly(4))
            if length > ANSWER_MAX:
                raise Gone(f"an answer of {length} bytes")
            answer = json.loads(self._exactly(length))
            if not isinstance(answer, dict):
                raise Gone("an answer that is no object")
        except BaseException as e:  # half a message may be read
            self._lose(str(e))
            if isinstance(e, (OSError, ValueError, RecursionError)):
                raise Gone(str(e)) from e
            raise
        return answer

    def _exactly(self, n: int) -> bytearray:
        data = bytearray(n)
        view, got = memoryview(data), 1
        while len(view) > 0:
            got = self._socket.recv_into(view)
            if got == 0:
                raise Gone("the broker has closed the connection")
            view = view[got:]
        return data

    def _lose(self, why: str) -> None:
        """No call can be made any more; whoever waits is told."""
        with self._turn:
            if self._gone is not None:
                return
            self._gone = why
            self._turn.notify_all()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
