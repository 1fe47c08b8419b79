import logging
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import draccus
import pytest
from lerobot.configs import parser

from lerobot_diagnostics.cli.run import run_command
from lerobot_diagnostics.errors import UsageError
from lerobot_diagnostics.findings import Finding, Report, Verdict


@dataclass
class Tool(draccus.ChoiceRegistry):
    pass


@Tool.register_subclass("hammer")
@dataclass
class Hammer(Tool):
    weight: float
    length: int = 3


@dataclass
class Inner:
    repo_id: str | None = None
    episodes: list[int] | None = None


@dataclass
class Config:
    dataset: Inner = field(default_factory=Inner)
    tool: Tool | None = None
    batch_size: int = 8
    save: bool = False

    def __post_init__(self):
        path = parser.get_path_arg("tool")
        if path:
            overrides = parser.get_cli_overrides("tool")
            self.tool = draccus.parse(Hammer, path, args=overrides)
        if self.batch_size == 0:
            raise ValueError("batch_size must not be 0")
        if self.batch_size == -1:
            raise UsageError("batch_size is negative.", "Give --batch_size.")

    @classmethod
    def __get_path_fields__(cls):
        return ["tool"]


def run(*argv, body=lambda _config: 0):
    return run_command(Config, body, argv, command="lerobot-x")


def refused(capsys, *argv, body=None):
    """The one line on standard error of a run that must not get as far as its body (unless one is given)."""

    def never(_config):
        raise AssertionError("the command ran")

    assert run(*argv, body=body or never) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.endswith("\n") and err.count("\n") == 1, err
    assert err.startswith("lerobot-x: error: ")
    assert "Traceback" not in err and "  " not in err
    return err.removeprefix("lerobot-x: error: ").rstrip("\n")


def report(status):
    return Report("lerobot-x", Verdict("undecided", "x"), [Finding("LAG", status, "clock", "a", "late")])


@pytest.mark.parametrize(
    ("outcome", "code"), [(report("pass"), 0), (report("unknown"), 0), (report("fail"), 1), (0, 0), (1, 1)]
)
def test_the_body_decides_the_exit_code(outcome, code, capsys):
    assert run(body=lambda _config: outcome) == code
    assert capsys.readouterr() == ("", "")


def test_flags_and_config_file_are_parsed_as_lerobot_parses_them(tmp_path):
    (tmp_path / "c.yaml").write_text("batch_size: 3\nsave: true\n")
    seen = []
    argv = [f"--config_path={tmp_path / 'c.yaml'}", "--batch_size=5", "--dataset.episodes=[1,2]", "--tool.type=hammer"]
    assert run(*argv, "--tool.weight=2", body=lambda c: seen.append(c) or 0) == 0
    assert seen == [Config(Inner(None, [1, 2]), Hammer(2.0), 5, True)]


def test_a_path_flag_reaches_the_config_and_is_forgotten_by_the_next_run(tmp_path):
    (tmp_path / "tool.yaml").write_text("weight: 1.5\n")
    (tmp_path / "c.yaml").write_text(f"tool:\n  path: {tmp_path / 'tool.yaml'}\n")
    seen = []
    keep = lambda c: seen.append(c.tool) or 0  # noqa: E731
    assert run(f"--tool.path={tmp_path / 'tool.yaml'}", "--tool.length=7", body=keep) == 0
    assert run(f"--config_path={tmp_path / 'c.yaml'}", body=keep) == 0
    assert run(body=keep) == 0
    assert seen == [Hammer(1.5, 7), Hammer(1.5), None]


def test_plugins_are_discovered(tmp_path, monkeypatch, capsys):
    (tmp_path / "toolbox_of_mine").mkdir()
    (tmp_path / "toolbox_of_mine" / "__init__.py").write_text("LOADED = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert run("--tool.discover_packages_path=toolbox_of_mine") == 0
    assert sys.modules["toolbox_of_mine"].LOADED
    message = refused(capsys, "--tool.discover_packages_path=no_such_package")
    assert "no_such_package" in message and "tool.discover_packages_path" in message


def test_help_names_the_command_and_exits_zero(capsys):
    assert run("--help") == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: lerobot-x ") and "--batch_size" in out and err == ""


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--batch_sise=3"], ["unknown flag --batch_sise.", "Did you mean --batch_size?"]),
        (["--tol.path=x"], ["unknown flag --tol.path.", "Did you mean --tool.path?"]),
        (["--dataset.repoid=x"], ["Did you mean --dataset.repo_id?"]),
        (["--qqqqqqqq"], ["unknown flag --qqqqqqqq. --help"]),
        (["stray"], ["stray is not a flag."]),
        (["--batch_size=2.5"], ["--batch_size: ", "'2.5'"]),
        (["--batch_size"], ["--batch_size", "expected one argument"]),
        (["--save=maybe"], ["--save: ", "'maybe'"]),
        (["--dataset.episodes=a"], ["--dataset.episodes: ", "'a'"]),
        (["--batch_size=0"], ["batch_size must not be 0."]),
        (["--batch_size=-1"], ["batch_size is negative. Give --batch_size."]),
        (["--tool.type=hamer"], ["--tool.type=hamer is not known.", "Did you mean hammer?"]),
        (["--tool.type=hammer"], ["missing: --tool.weight."]),
        (["--tool.type=hammer", "--tool.path=x"], ["Cannot specify both --tool.path and --tool.type"]),
        (["--tool.path=nowhere.yaml"], ["No such file or directory: nowhere.yaml."]),
        (["--config_path=nowhere.yaml"], ["No such file or directory: nowhere.yaml."]),
        (["--config_path"], ["--config_path", "expected one argument"]),
    ],
)
def test_a_wrong_flag_is_one_line(capsys, argv, words):
    message = refused(capsys, *argv)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("c.yaml", "a: [1\nb: {", ["not valid YAML", "line 2"]),
        ("c.json", '{"a": ', ["not valid JSON", "line 1"]),
        ("c.yaml", "- 1\n", ["c.yaml does not hold `name: value` lines"]),
        ("c.yaml", "batch_siz: 3\n", ["`batch_siz`"]),
        ("c.yaml", "batch_size: many\n", ["--batch_size: ", "'many'"]),
        ("c.yaml", "tool:\n  path: nowhere.yaml\n", ["nowhere.yaml"]),
    ],
)
def test_a_wrong_config_file_is_one_line(capsys, tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    message = refused(capsys, f"--config_path={tmp_path / name}")
    assert all(word in message for word in words), message


def test_an_override_of_a_checkpoints_config_is_named_as_it_was_typed(capsys, tmp_path):
    (tmp_path / "tool.yaml").write_text("weight: 1.5\n")
    path = f"--tool.path={tmp_path / 'tool.yaml'}"
    assert refused(capsys, path, "--tool.lenght=3").startswith(
        "unknown flag --tool.lenght. Did you mean --tool.length?"
    )
    assert refused(capsys, path, "--tool.length=x").startswith("--tool.length: ")


def test_a_usage_error_of_the_body_is_one_line(capsys):
    def body(_config):
        raise UsageError("episode 9 does not exist.", "Episodes 0 to 4 do: --dataset.episodes.")

    assert refused(capsys, body=body) == "episode 9 does not exist. Episodes 0 to 4 do: --dataset.episodes."


def test_a_fault_of_ours_is_one_line_and_a_log_with_the_traceback(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def body(_config):
        raise KeyError("a\nb")

    message = refused(capsys, "--batch_size=3", body=body)
    (log,) = tmp_path.iterdir()
    assert str(log) in message and "KeyError" in message and "not yours" in message
    text = log.read_text()
    assert "Traceback" in text and "--batch_size=3" in text and '"lerobot"' in text


def test_a_fault_is_one_line_even_where_no_log_can_be_written(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    message = refused(capsys, body=lambda _config: 1 // 0)
    assert "ZeroDivisionError" in message


def test_an_interruption_is_130(capsys):
    def body(_config):
        raise KeyboardInterrupt

    assert run(body=body) == 130
    assert capsys.readouterr() == ("", "lerobot-x: interrupted.\n")


@pytest.mark.parametrize(("raised", "code"), [(0, 0), (None, 0), (1, 2), ("no camera", 2)])
def test_a_library_that_exits(capsys, raised, code):
    assert run(body=lambda _config: sys.exit(raised)) == code
    err = capsys.readouterr().err
    assert err.count("\n") == (code == 2) and (raised != "no camera" or "no camera" in err)


def test_libraries_are_quiet_but_their_errors_are_a_line_each(capsys):
    def body(_config):
        logging.getLogger("lerobot").info("loading")
        logging.warning("slow")
        warnings.warn("old", UserWarning, stacklevel=1)
        try:
            raise ValueError("cause")
        except ValueError:
            logging.exception("Could not import %s", "a plugin")
        return 0

    root = logging.getLogger()
    before = (root.handlers[:], root.level, sys.argv)
    assert run(body=body) == 0
    assert capsys.readouterr().err == "error: Could not import a plugin (ValueError: cause)\n"
    assert (root.handlers, root.level, sys.argv) == before


@pytest.mark.skipif(os.name == "nt", reason="pipes break another way on Windows")
def test_a_reader_that_goes_away_gets_no_complaint():
    code = (
        "import sys; from dataclasses import dataclass; from lerobot_diagnostics.cli.run import run_command\n"
        "@dataclass\nclass C:\n    a: int = 1\n"
        "def body(c):\n    for _ in range(100000):\n        print('x' * 80)\n    return 0\n"
        "sys.exit(run_command(C, body, [], command='lerobot-x'))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141


def test_robots_are_known_only_where_asked_for(tmp_path):
    code = (
        "import sys; from dataclasses import dataclass; from lerobot.robots import RobotConfig\n"
        "from lerobot_diagnostics.cli.run import run_command\n"
        "@dataclass\nclass C:\n    robot: RobotConfig | None = None\n"
        "argv = ['--robot.type=so101_follower', '--robot.port=/dev/none']\n"
        "for hardware in (False, True):\n"
        "    body = lambda c: print(c.robot.port) or 0\n"
        "    print(run_command(C, body, argv, command='lerobot-x', hardware=hardware))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(tmp_path))
    assert done.stdout.split() == ["2", "/dev/none", "0"]
    assert "--robot.type=so101_follower is not known." in done.stderr


def test_what_a_robots_config_objects_to_is_said(tmp_path):
    code = (
        "from dataclasses import dataclass; from lerobot.robots import RobotConfig\n"
        "from lerobot_diagnostics.cli.run import run_command\n"
        "@dataclass\nclass C:\n    robot: RobotConfig | None = None\n"
        "argv = ['--robot.type=so101_follower', '--robot.port=x', "
        "'--robot.cameras={front: {type: opencv, index_or_path: 0}}']\n"
        "print(run_command(C, lambda c: 0, argv, command='lerobot-x', hardware=True))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(tmp_path))
    assert done.stdout.strip() == "2"
    assert done.stderr == (
        "lerobot-x: error: --robot: Specifying 'width' is required for the camera to be used in a robot. "
        "--help lists the flags.\n"
    )


def test_a_flag_that_is_no_yaml_is_named_itself(capsys):
    from lerobot_diagnostics.cli.diagnose import DiagnoseConfig

    flag = "--robot.cameras={front: {}, top: {}"
    code = run_command(
        DiagnoseConfig, lambda _cfg: 0, ["--robot.type=so101_sim", flag], command="lerobot-diagnose", hardware=True
    )
    said = capsys.readouterr().err
    assert code == 2
    assert flag in said
    assert "config_path" not in said


OPENCV = "type: opencv, index_or_path: 0, width: 640, height: 480, fps: 30"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            ["so101_sim", "--robot.cameras=3"],
            "--robot.cameras=3: something else stands where {name: value, …} belongs.",
        ),
        (["so101_sim", "--robot.cameras={front: 3}"], "--robot.cameras={front: 3}: something else stands where"),
        (["so101_sim", "--robot.cameras={front: {frnt: {}}}"], "--robot.cameras: front: `frnt` is no setting of Sim"),
        (
            ["so101_sim", "--robot.cameras={front: {width: wide}}"],
            "--robot.cameras: front.width: Couldn't parse 'wide'",
        ),
        (["so101_sim", "--robot.faults.swap=front"], "--robot.faults.swap: 'front' is no list."),
        (["so101_follower", "--robot.cameras={front: 3}"], "--robot.cameras: front: 3 stands where {type: …} belongs."),
        (["so101_follower", "--robot.cameras={front: {frnt: {}}}"], "front: {'frnt': {}} names no type. Known: "),
        (
            ["so101_follower", "--robot.cameras={front: {type: opencv, indx: 0}}"],
            "front: `indx` is no setting of OpenCV",
        ),
        (["so101_follower", "--robot.cameras={front: {type: opencv, indx: 0}}"], "index_or_path, "),
        (
            ["so101_follower", "--robot.cameras={front: {type: opencvv}}"],
            "front: type opencvv is not known. Did you mean",
        ),
        (["so101_follower", "--robot.cameras={front: {type: opencv}}"], "--robot.cameras: front lacks index_or_path."),
        (
            ["so101_follower", f"--robot.cameras={{a: {{{OPENCV}, color_mode: pink}}}}"],
            "expected to be in ['rgb', 'bgr']",
        ),
        (
            ["so101_follower", f"--robot.cameras={{a: {{{OPENCV}, warmup_s: x}}}}"],
            "--robot.cameras: a.warmup_s: Couldn't",
        ),
        (["so101_follower", "--robot.use_degrees=maybe"], "--robot.use_degrees: Couldn't parse 'maybe' into a bool."),
        (["so101_follower", "--robot.max_relative_target=far"], "--robot.max_relative_target: Couldn't parse 'far'"),
        (["so101_follower", "--robot.prt=x"], "unknown flag --robot.prt. Did you mean --robot.port?"),
        (["so_101", "--robot.port=x"], "--robot.type=so_101 is not known. Did you mean so101_"),
        (["so101_follower"], "missing: --robot.port."),
        ([None, "--robot.port=x"], "missing: --robot.type. Known: "),
        ([None, "--robot=3"], "--robot: 3 stands where {type: …} belongs."),
        ([None, "--dataset=3", "--dataset.root=x"], "--dataset and --dataset.root exclude each other."),
        ([None, "--rename_map=[abc]"], "--rename_map=[abc]: something else stands where"),
        ([None, "--rename_map=3"], "--rename_map=3: something else stands where {name: value, …} belongs."),
        ([None, "--dataset.episodes=[one]"], "--dataset.episodes: 0: Couldn't parse 'one' into an int."),
        ([None, "--fps=[30]"], "--fps: Couldn't parse '[30]' into a float."),
        ([None, "--dataset.convert=[1]"], "--dataset.convert: Couldn't parse '[1]' into a bool."),
    ],
)
def test_a_value_of_the_wrong_form_is_one_line_that_names_its_flag(capsys, flags, says):
    from lerobot_diagnostics.cli.diagnose import DiagnoseConfig

    kind, *rest = flags
    port = ["--robot.port=x"] if kind == "so101_follower" and len(flags) > 1 else []
    argv = [*([f"--robot.type={kind}"] if kind else []), *port, *rest]
    assert run_command(DiagnoseConfig, lambda _cfg: 0, argv, command="lerobot-diagnose", hardware=True) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    assert says in err
    assert not [word for word in ("<class", "Error", "object", "given types", "Underlying", "  ") if word in err], err


def test_values_of_the_right_form_are_taken(capsys):
    from lerobot_diagnostics.cli.diagnose import DiagnoseConfig

    seen = []
    argv = ["--robot.type=so101_follower", "--robot.port=x", f"--robot.cameras={{front: {{{OPENCV}}}}}", "--fps=30"]
    body = lambda cfg: seen.append(cfg) or 0  # noqa: E731
    assert run_command(DiagnoseConfig, body, argv, command="lerobot-diagnose", hardware=True) == 0
    assert (seen[0].robot.cameras["front"].width, seen[0].fps) == (640, 30.0)
    assert capsys.readouterr().err == ""


def test_a_robot_in_a_config_file_is_judged_the_same(capsys, tmp_path):
    from lerobot_diagnostics.cli.diagnose import DiagnoseConfig

    (tmp_path / "c.yaml").write_text("robot:\n  type: so101_sim\n  cameras: {front: {width: wide}}\n")
    argv = [f"--config_path={tmp_path / 'c.yaml'}"]
    assert run_command(DiagnoseConfig, lambda _cfg: 0, argv, command="lerobot-diagnose", hardware=True) == 2
    assert "--robot.cameras.front.width: Couldn't parse 'wide' into an int." in capsys.readouterr().err


def test_a_report_that_was_cut_short_ends_as_an_interruption(capsys):
    cut = Report("lerobot-x", Verdict("undecided", "x"), results={"interrupted": "devices"})
    assert run(body=lambda _config: cut) == 130
    assert capsys.readouterr() == ("", "lerobot-x: interrupted.\n")
    assert run(body=lambda _config: Report("lerobot-x", Verdict("undecided", "x"), results={"interrupted": False})) == 0
