"""Run the command line as a person does: in a process of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any


@dataclass
class Done:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


def python(*arguments: object, stdin: str = "", **environment: str) -> Done:
    run = subprocess.run(
        [sys.executable, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf8",
        timeout=120,
        env={**os.environ, **environment},
    )
    return Done(run.returncode, run.stdout, run.stderr)


def bertworks(*arguments: object, stdin: str | bytes = "", **environment: str) -> Done:
    """The command line in this process, which spares two seconds of imports; with `environment`, in one of its own."""
    if environment:
        return python("-m", "bertworks", *arguments, stdin=str(stdin), **environment)
    from bertworks.cli import main

    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf8") for _ in range(3)]
    streams[0].buffer.write(stdin.encode() if isinstance(stdin, str) else stdin)
    streams[0].seek(0)
    kept = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.stdin, sys.stdout, sys.stderr = kept
    out, err = (stream.buffer.getvalue().decode() for stream in streams[1:] if not stream.flush())
    return Done(code, out, err)
