"""The seam between a command line and a command: parse as LeRobot does, call, and turn every ending into an exit code.

0 nothing failed, 1 a finding failed, 2 the command could not run, 130 interrupted. Whatever goes wrong, the user sees
one line on standard error and no traceback.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import logging
import pkgutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Report
from lerobot_diagnostics.flags import in_the_users_terms, readable
from lerobot_diagnostics.report.console import silence_stdout
from lerobot_diagnostics.report.versions import collect_versions

EXIT_CANNOT_RUN = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""What a shell reports for a program that wrote to a pipe nobody reads any more."""


def run_command[Config](
    config_class: type[Config],
    body: Callable[[Config], Report | int],
    argv: Sequence[str] | None = None,
    *,
    command: str,
    hardware: bool = False,
) -> int:
    """Run one of our commands from its command line.

    Args:
        config_class: The draccus dataclass that the flags fill.
        body: The command itself. It prints and writes; a :class:`Report` it returns gives the exit code: 130 where its
            results say "interrupted".
        argv: The flags without the program's name; those of the process by default.
        command: The name the user typed, e.g. ``lerobot-open-loop-eval``.
        hardware: Import every robot and camera type of LeRobot, so that ``--robot.type`` knows them.

    Returns:
        The exit code.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    with _quiet(), _argv(command, argv):
        try:
            code = _run(config_class, body, argv, hardware)
            sys.stdout.flush()
        except UsageError as error:
            code = _fail(command, str(error))
        except KeyboardInterrupt:
            code = _fail(command, "interrupted.", EXIT_INTERRUPTED)
        except BrokenPipeError:
            silence_stdout()
            code = EXIT_BROKEN_PIPE
        except SystemExit as error:
            code = _exit_code(command, error)
        except Exception as error:
            code = _fail(command, _bug(error, command, argv))
        return code


def _run[Config](
    config_class: type[Config],
    body: Callable[[Config], Report | int],
    argv: Sequence[str],
    hardware: bool,
) -> int:
    from lerobot.utils.import_utils import register_third_party_plugins

    register_third_party_plugins()
    if hardware:
        _import_hardware()
    config = _parse(config_class, argv)
    if config is None:  # --help
        return 0
    outcome = body(config)
    if not isinstance(outcome, Report):
        return outcome
    if outcome.results.get("interrupted"):  # what was found until then is written
        raise KeyboardInterrupt
    return outcome.exit_code


def _parse[Config](config_class: type[Config], argv: Sequence[str]) -> Config | None:
    """The config that ``parser.wrap`` makes of ``sys.argv``, or None after ``--help``.

    Raises:
        UsageError: For whatever ``parser.wrap``, draccus, argparse, a config file or a plugin had to say about it.
    """
    import draccus.utils
    import yaml  # type: ignore[import-untyped]
    from lerobot.configs import parser

    # Left by an earlier parse in this process: parser.wrap only ever adds to them.
    parser._config_path_args.clear()
    parser._config_yaml_overrides.clear()

    def keep(config: Config) -> Config:
        return config

    keep.__annotations__["config"] = config_class  # parser.wrap reads the type from here
    try:
        with in_the_users_terms(argv, config_class):
            config: Config = parser.wrap()(keep)()
        return config
    except SystemExit:
        return None
    except BrokenPipeError:
        raise
    except json.JSONDecodeError as error:
        raise UsageError(f"a config file is not valid JSON: {error}.", _CHECK_CONFIG) from error
    except yaml.YAMLError as error:
        broken = _broken_flag(argv)
        if broken is not None:
            raise UsageError(
                f"{broken} is not valid: {_yaml_problem(error)}.", "Check its braces and quotes."
            ) from error
        raise UsageError(f"the config file is not valid YAML: {error}.", _CHECK_CONFIG) from error
    except AttributeError as error:
        path = parser.parse_arg("config_path")
        if path and not isinstance(yaml.safe_load(Path(path).read_text(encoding="utf-8")), dict):
            raise UsageError(f"--config_path={path} does not hold `name: value` lines.", _CHECK_CONFIG) from error
        raise
    except OSError as error:  # a config file or a checkpoint's config.json that is not there
        where = f": {error.filename}" if error.filename and error.strerror else ""
        raise UsageError(readable(f"{error.strerror}{where}" if error.strerror else str(error))) from error
    except (parser.PluginLoadError, parser.ArgumentError, draccus.utils.DraccusException, ValueError) as error:
        raise UsageError(readable(str(error))) from error


def _broken_flag(argv: Sequence[str]) -> str | None:
    """The flag, as typed, whose value is no YAML; flags are parsed as YAML too."""
    import yaml

    for word in argv:
        try:
            yaml.safe_load(word.partition("=")[2])
        except yaml.YAMLError:
            return word
    return None


def _yaml_problem(error: Exception) -> str:
    """What the YAML parser missed, without the place, which a flag on one line does not need."""
    return str(getattr(error, "problem", None) or error).splitlines()[0]


_CHECK_CONFIG = "Check the file given with --config_path."


def _import_hardware() -> None:
    """Import LeRobot's robot and camera packages; one whose driver is not installed cannot be chosen, that is all."""
    import lerobot.cameras
    import lerobot.robots

    for package in (lerobot.cameras, lerobot.robots):
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            if module.ispkg:
                with contextlib.suppress(ImportError):
                    importlib.import_module(module.name)


def _fail(command: str, message: str, code: int = EXIT_CANNOT_RUN) -> int:
    kind = "" if code == EXIT_INTERRUPTED else "error: "
    with contextlib.suppress(BrokenPipeError):
        print(f"{command}: {kind}{' '.join(message.split())}", file=sys.stderr, flush=True)
    return code


def _exit_code(command: str, error: SystemExit) -> int:
    """A library that called ``sys.exit`` could not do its work, unless it says 0."""
    if error.code is None or error.code == 0:
        return 0
    return _fail(command, error.code if isinstance(error.code, str) else f"stopped with exit code {error.code}.")


def _bug(error: Exception, command: str, argv: Sequence[str]) -> str:
    what = f"{type(error).__name__}: {error}".strip().rstrip(":.")
    what = what if len(what) <= 300 else what[:300] + "…"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix=f"{command}-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as log:
            log.write(f"{command} {' '.join(argv)}\n{json.dumps(collect_versions(), indent=2)}\n\n")
            log.write("".join(traceback.format_exception(error)))
        details = f"Please report it with {log.name}"
    except OSError:
        details = "Please report it"
    return f"{what}. This is a fault in lerobot-diagnostics, not yours. {details}."


@contextlib.contextmanager
def _argv(command: str, argv: Sequence[str]) -> Iterator[None]:
    """``parser.wrap`` and LeRobot's configs read ``sys.argv`` and nothing else."""
    saved = sys.argv
    sys.argv = [command, *argv]
    try:
        yield
    finally:
        sys.argv = saved


class _OneLine(logging.Formatter):
    """A log record without its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        reason = f" ({type(error).__name__}: {error})" if error else ""
        return " ".join(f"{record.levelname.lower()}: {record.getMessage()}{reason}".split())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Of what libraries log and warn, errors alone reach the user, a line each; and no character stops a stream."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    handler.setLevel(logging.ERROR)
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
