"""What draccus and argparse say about flags, in the user's terms: one line, and the flag as it was typed."""

from __future__ import annotations

import contextlib
import difflib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lerobot_diagnostics.errors import UsageError

HELP = "--help lists the flags."


@contextlib.contextmanager
def in_the_users_terms(argv: Sequence[str], config_class: type | None = None) -> Iterator[None]:
    """Turn what a parse says about its flags into one line; nothing is printed.

    Args:
        argv: The flags as typed.
        config_class: What they fill; its path fields are known flags too.

    Raises:
        UsageError: A flag is not known, or its value is not what is needed there.
        SystemExit: After ``--help``.
    """
    from draccus.utils import DecodingError, ParsingError

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
    except SystemExit as error:
        if not error.code:
            raise
        if isinstance(error.__context__, DecodingError):  # parser.wrap prints it, and exits
            raise UsageError(_undecoded(error.__context__, argv), HELP) from error
        raise _usage_error(said.getvalue(), argv, config_class) from error
    except ParsingError as error:
        raise UsageError(_undecoded(error, argv), HELP) from error
    except TypeError as error:
        names = [word.partition("=")[0] for word in argv]
        for whole in names:
            if part := next((name for name in names if name.startswith(whole + ".")), ""):
                raise UsageError(f"{whole} and {part} exclude each other.", f"Leave out {whole}.") from error
        raise


# ---- values that do not fit


_WRAPPED = ("Could not decode the value", "Failed when parsing", "Couldn't instantiate", "Failed to load config")
"""Messages of draccus that keep what was said as their cause."""


def _undecoded(error: BaseException, argv: Sequence[str]) -> str:
    """The flag, where in its value, and the reason at the bottom of draccus' chain of causes."""
    path: Sequence[object] = ()
    prefix, outer = "", ""
    while True:
        message = str(getattr(error, "message", error))
        path = max(path, tuple(getattr(error, "key_path", ())), key=len)
        alternatives = re.findall(r"^ {4}[^\s:][^:]*: (.*)$", message, re.MULTILINE)  # of a union
        if len(alternatives) > 1:
            message = alternatives[0]
        if error.__cause__ is None or len(alternatives) > 1 or not message.startswith(_WRAPPED):
            break
        prefix = "the config file cannot be read: " if message.startswith("Failed to load config") else prefix
        outer, error = message, error.__cause__
    flag, inside = _typed_part(path, argv)
    if isinstance(error, KeyError) and isinstance(error.__context__, ValueError):
        message = str(error.__context__)  # a name that an enumeration does not have
    elif _of_python(error) and not outer.startswith(("Couldn't instantiate", "Failed to load config")):
        typed = next((word for word in argv if word.partition("=")[0] == flag), flag or "the config file")
        return f"{typed}: something else stands where {{name: value, …}} belongs."
    return prefix + _said(message, flag, inside, argv)


def _of_python(error: BaseException) -> bool:
    """Whether draccus took a value for another shape and Python complained: no words for a user."""
    from draccus.utils import ParsingError

    return not isinstance(error, ParsingError) and type(error) is not Exception  # as which draccus raises its own


def _said(message: str, flag: str, inside: str, argv: Sequence[str]) -> str:
    """One of draccus' sentences about ``flag``, or what is ``inside`` its value, in ours."""
    where = ": ".join(part for part in (flag, inside) if part)
    missing = re.match(r"Missing required field\(s\) (.*) for \w+$", message)
    if missing:
        names = re.findall(r"`(\w+)`", missing.group(1))
        if inside:
            return f"{where} lacks {', '.join(names)}."
        return f"missing: {', '.join(f'{flag}.{name}' if flag else f'--{name}' for name in names)}."
    surplus = re.match(r"The fields (.*) are not valid for (\w+)$", message)
    if surplus:
        text = f"{surplus.group(1)} is no setting of {surplus.group(2)}."
        known = _settings(surplus.group(2))
        return (f"{where}: " if where else "") + text + (f" Known: {', '.join(known)}." if known else "")
    choice = re.match(r"Couldn't find a choice class for '(.*)' in (<class .*>)$", message)
    if choice:
        name, base = choice.groups()
        return f"{where}: type {name} is not known. {_nearest(name, _choices(base))}"
    untyped = re.match(r"Expected a dict with a 'type' key for (<class .*>), got (.*)$", message)
    if untyped:
        base, value = untyped.groups()
        place, known = _place(value, flag, argv), f"Known: {', '.join(_choices(base))}."
        return f"missing: {flag}.type. {known}" if place == flag else f"{place}: {value} names no type. {known}"
    bare = re.match(r"Expected a dict for a choice class, got (.*)$", message)
    if bare:
        return f"{_place(bare.group(1), flag, argv)}: {bare.group(1)} stands where {{type: …}} belongs."
    message = re.sub(r"^(Couldn't parse .* into an? \w+): .*", r"\1", message).replace(" into a int", " into an int")
    message = re.sub(r"^The given value='(.*)' is not of a valid input for a list type", r"'\1' is no list", message)
    return readable(f"{where}: {message}" if where else message)


def _typed_part(path: Sequence[object], argv: Sequence[str]) -> tuple[str, str]:
    """A path of draccus as the flag that was typed and what lies inside its value: --robot.cameras, front.width."""
    names = [word.partition("=")[0] for word in argv]
    parts = [str(part) for part in path]
    for n in range(len(parts), 0, -1):
        flag = "--" + ".".join(parts[:n])
        if (typed := as_typed(flag, argv)) in names:
            return typed, ".".join(parts[n:])
    return ("--" + ".".join(parts) if parts else ""), ""


def _place(value: str, flag: str, argv: Sequence[str]) -> str:
    """The typed flag at or below ``flag`` that holds ``value`` somewhere inside, and where: draccus forgets it."""
    import yaml  # type: ignore[import-untyped]

    for word in argv:
        name, _, text = word.partition("=")
        if name == flag or name.startswith(flag + "."):
            for names, item in _walk(yaml.safe_load(text)):
                if names and str(item) == value:
                    return f"{name}: {'.'.join(names)}"
    return flag


def _walk(value: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield names, value
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _walk(item, (*names, str(name)))


def _choices(base: str) -> Sequence[str]:
    """The registered types of a class that draccus names as ``<class '…'>``."""
    from draccus import ChoiceRegistry

    found = next((c for c in ChoiceRegistry.__subclasses__() if str(c) == base), None)
    return list(found.get_known_choices()) if found is not None else []


def _settings(owner: str) -> Sequence[str]:
    """The fields of a registered type, by its class's name."""
    import dataclasses

    from draccus import ChoiceRegistry

    types = (kind for base in ChoiceRegistry.__subclasses__() for kind in base.get_known_choices().values())
    found = next((kind for kind in types if kind.__name__ == owner), None)
    return [field.name for field in dataclasses.fields(found)] if found is not None else []


# ---- flags that do not exist


def _usage_error(said: str, argv: Sequence[str], config_class: type | None) -> UsageError:
    """What argparse printed before it exited, in one line and with the nearest name."""
    usage, _, message = said.rpartition("error: ")
    known = set(re.findall(r"--[A-Za-z_][\w.\-]*", usage))
    path_fields: list[str] = getattr(config_class, "__get_path_fields__", list)()
    known |= {f"--{name}.path" for name in path_fields} | {"--config_path", "--help"}
    unknown = re.match(r"unrecognized arguments: (.*)", message.strip(), re.DOTALL)
    if unknown:
        return _unknown_flags(unknown.group(1).split(), argv, known)
    choice = re.match(r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)\s*$", message, re.DOTALL)
    if choice:
        flag, value, listed = choice.groups()
        names = [name.strip(" '\n") for name in listed.split(",")]
        return UsageError(f"{flag}={value} is not known.", _nearest(value, names))
    text = re.sub(r"^--[\w.]+", lambda flag: as_typed(flag.group(), argv), readable(message))
    return UsageError(text, HELP)


def _unknown_flags(words: Sequence[str], argv: Sequence[str], known: set[str]) -> UsageError:
    flags = [word.partition("=")[0] for word in words if word.startswith("-")]
    if not flags:
        return UsageError(f"{' '.join(words)} is not a flag.", "Flags are written --name=value; --help lists them.")
    typed = as_typed(flags[0], argv)
    prefix = typed.removesuffix(flags[0].lstrip("-"))  # "--", or "--policy." before an override
    candidates = sorted(known | {prefix + name.lstrip("-") for name in known})
    return UsageError(f"unknown flag {typed}.", f"{_did_you_mean(typed, candidates)}{HELP}")


def as_typed(flag: str, argv: Sequence[str]) -> str:
    """Overrides of a checkpoint's own config are parsed without their "--policy.": the flag as the user typed it."""
    names = [word.partition("=")[0] for word in argv]
    if flag in names:
        return flag
    return next((name for name in names if name.endswith("." + flag.lstrip("-"))), flag)


def _did_you_mean(name: str, known: Sequence[str], cutoff: float = 0.6) -> str:
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    return f"Did you mean {nearest[0]}? " if nearest else ""


def _nearest(name: str, known: Sequence[str]) -> str:
    """The nearest of several types, and all of them."""
    # 0.5: so_101 has to find so101_follower
    return f"{_did_you_mean(name, known, 0.5)}Known: {', '.join(known)}."


def readable(message: str) -> str:
    """A message of draccus or a config in the user's terms: `a.b` is the flag --a.b, a class is its name."""
    message = re.sub(r"<class '(?:[\w.<>]*\.)?(\w+)'>", r"\1", message)
    message = re.sub(r"<\w+\.\w+: ([^>]*)>", r"\1", message)  # a member of an enumeration is its value
    message = re.sub(r"^`([\w.]+)`: ", r"--\1: ", message.strip())
    message = " ".join(message.split())
    return message if message.endswith((".", "?", "!")) else message + "."
