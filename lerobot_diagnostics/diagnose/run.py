"""The whole ladder: which rungs the inputs allow, run in order, attributed, as one report."""

from __future__ import annotations

import dataclasses
import functools
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lerobot_diagnostics.camera_names import IMAGES, camera_name
from lerobot_diagnostics.diagnose import devices, motion, nudging, removal, snapshot
from lerobot_diagnostics.diagnose.attribution import MODEL_ERRORS, attribute, evidence_of, silence
from lerobot_diagnostics.diagnose.clock import judge_clock, look, measure
from lerobot_diagnostics.diagnose.features import robot_side
from lerobot_diagnostics.diagnose.files import Files, judge_files, robot_units, saved_rename
from lerobot_diagnostics.diagnose.ladder import Climbed, Outcome, Rung, climb, interrupted, ladder_table
from lerobot_diagnostics.diagnose.live import LiveRobot, open_for_reading
from lerobot_diagnostics.diagnose.model import judge_model
from lerobot_diagnostics.diagnose.views import judge_views, live_state, read_references
from lerobot_diagnostics.findings import Cause, Finding, Report, Status, Table, by_severity
from lerobot_diagnostics.openloop.checkpoint import (
    PREPROCESSOR,
    CheckpointRef,
    LoadedPolicy,
    find_checkpoints,
    load_config,
    load_policy,
)
from lerobot_diagnostics.openloop.session import Session, check_episodes, open_session
from lerobot_diagnostics.openloop.split import TRAIN
from lerobot_diagnostics.recording import Recording, open_recording
from lerobot_diagnostics.recording.rename import check_rename_map
from lerobot_diagnostics.robot import calibration as calibrations
from lerobot_diagnostics.robot import parts
from lerobot_diagnostics.robot.joints import robot_joints

COMMAND = "lerobot-diagnose"
FORBIDS_MOTION = frozenset({Cause.UNITS, Cause.MOTORS, Cause.CONFIG})
"""A failure with one of these causes would send the arm elsewhere than recorded, or loses it on the way. What a policy
predicts is not sent."""
REPLAY_SPEED = 0.5
ZEROS = (
    "Whether every joint's zero is where it was when the data were recorded: without motion only a snapshot of then "
    "tells (--baseline); with motion the pictures do (--replay=true)."
)


MOVED_PX = 3.0
"""Twice what counts as standing in a picture 320 wide (``vision.workspace``). Where simulated cameras had not been
moved, calibration by sight saw the background move by at most 0.1 px (two cameras, 300 runs)."""


@dataclass(frozen=True)
class Inputs:
    """What the user gave.

    Args:
        policy_path: ``--policy.path``.
        policy_overrides: ``--policy.*`` settings.
        repo_id, root, revision, convert, episodes: ``--dataset.*``.
        rename_map: ``--rename_map``; None where none was given.
        device: Torch device.
        fps: ``--fps`` of the rollout.
        robot: LeRobot's robot, made and not connected.
        baseline: ``--baseline``, a setup snapshot to compare with.
        after: ``--dataset_after.*`` as for :func:`open_recording`: a recording of now, to compare by sight.
        replay: Whether the arm may move: calibration by sight, the object taken away, and the replay of an episode.
        yes: Whether it may without asking.
        robot_flags: Its flags as typed, for the commands that are suggested.
        shown: For the report.
    """

    policy_path: str | None = None
    policy_overrides: Sequence[str] = ()
    repo_id: str | None = None
    root: str | None = None
    revision: str | None = None
    convert: bool = False
    episodes: Sequence[int] | None = None
    rename_map: Mapping[str, str] | None = None
    device: str | None = None
    fps: float | None = None
    robot: Any = None
    baseline: str | None = None
    after: Mapping[str, Any] | None = None
    replay: bool = False
    yes: bool = False
    robot_flags: Sequence[str] = ()
    shown: Mapping[str, Any] = field(default_factory=dict)


def diagnose(
    inputs: Inputs,
    output_dir: Path,
    versions: Mapping[str, str],
    *,
    say: Callable[[str], None] = print,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
    soak_s: float = devices.SOAK_S,
) -> Report:
    """Run every rung that the inputs allow.

    Args:
        inputs: What was given.
        output_dir: Where pictures go.
        versions: For the report.
        say: Prints a line before each rung.
        clock, sleep: Seconds.
        soak_s: How long arm and cameras are read.

    Raises:
        UsageError: When the checkpoint or the data set that was named cannot be opened, a ``--policy.*`` setting
            does not fit, or an episode does not exist.
    """
    ladder = Ladder(inputs, output_dir, versions, clock, sleep, soak_s)
    return summarize(climb(ladder.rungs(), say, clock), inputs, versions)


def moved_cameras(seen: Sequence[Finding], found: Sequence[Finding]) -> list[Finding]:
    """MOVED of cameras over whose live picture no recorded one could be laid, but whose background sight recognised.

    Args:
        seen: What calibration by sight found.
        found: What the rungs before it did.
    """
    unknown = {f.subject for f in found if f.code == "MOVED" and f.status is Status.UNKNOWN}
    moved: Mapping[str, float] = next(
        (f.evidence["camera_moved_px"] for f in seen if "camera_moved_px" in f.evidence), {}
    )
    result = []
    for key, pixels in moved.items():
        name = camera_name(key)
        if name in unknown and pixels > MOVED_PX:
            summary = f"{name} was moved: behind the arm its picture has moved by up to {pixels:.0f} px (of 320)."
            fix = "Put it back over the recorded view: lerobot-rollout --strategy.type=align."
            evidence = {"moved_px_of_320": pixels}
            result.append(Finding("MOVED", Status.WARN, Cause.CAMERAS, name, summary, evidence, fix))
    return result


class Ladder:
    """The rungs over what they share: data set, checkpoint loaded once, one soak of the robot."""

    def __init__(
        self,
        inputs: Inputs,
        output_dir: Path,
        versions: Mapping[str, str],
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        soak_s: float,
    ) -> None:
        self.inputs, self.output_dir, self.versions = inputs, output_dir, versions
        self.clock, self.sleep, self.soak_s = clock, sleep, soak_s
        self.refs: Sequence[CheckpointRef] = find_checkpoints(inputs.policy_path) if inputs.policy_path else []
        self.session: Session | None = None
        self.recording: Recording | None = None
        if self.refs and inputs.policy_overrides:
            load_config(self.refs[-1], overrides=inputs.policy_overrides)  # a wrong flag is no finding
        named: dict[str, Any] = {
            "repo_id": inputs.repo_id, "root": inputs.root, "revision": inputs.revision, "convert": inputs.convert,
        }  # fmt: skip
        if self.refs:
            self.session = open_session(self.refs, **named)
            self.recording = self.session.recording
            self.recording.need_videos = False  # what is missing is a finding, not the end
        elif inputs.repo_id is not None or inputs.root is not None:
            self.recording = open_recording(**named, need_videos=False)
        robot = inputs.robot
        live = [] if robot is None else robot_side(robot.observation_features, robot.action_features).cameras
        if self.recording is not None or live:
            check_rename_map(inputs.rename_map, self.recording, ["observation.state", *live])
        if self.recording is not None and inputs.episodes is not None:
            check_episodes(inputs.episodes, self.recording.episode_indices)
        self.soaked: devices.Soak | None = None
        self.baseline = snapshot.load(inputs.baseline) if inputs.baseline else None
        self.nudges: Sequence[nudging.Pose] = ()
        if self.baseline is not None and inputs.baseline and inputs.replay:
            self.nudges = nudging.load(self.baseline[0], snapshot.file_of(inputs.baseline).parent)
        self.found: list[Finding] = []

    def rungs(self) -> Iterator[Rung]:
        """All of them, cheapest first; those that move the arm last, and made only when the others have spoken."""
        for rung in (self.files(), self.devices(), self.views(), self.clock_rung(), self.model()):
            yield self._noted(rung)
        if self.inputs.after is not None:
            yield self._noted(self.recordings())
        if self.inputs.replay:
            yield self._noted(self.sight())
            yield self._noted(self.removal())
            yield self._noted(self.replay())

    def _noted(self, rung: Rung) -> Rung:
        """The same rung; what it finds is kept for those after it."""
        if rung.run is None:
            return rung
        run = rung.run

        def noting() -> Outcome:
            outcome = run()
            self.found += outcome.findings
            return outcome

        return dataclasses.replace(rung, run=noting)

    @functools.cached_property
    def loaded(self) -> LoadedPolicy:
        """The last checkpoint."""
        return self._load(self.refs[-1])

    def _load(self, ref: CheckpointRef) -> LoadedPolicy:
        given = self.inputs
        return load_policy(ref, device=given.device, rename_map=given.rename_map, overrides=given.policy_overrides)

    @property
    def _calibration(self) -> dict[str, calibrations.Limits]:
        """Of all arms, joints with their arm's prefix."""
        limits: dict[str, calibrations.Limits] = {}
        for prefix, part in parts.parts(self.inputs.robot):
            own = calibrations.read(getattr(part, "calibration", None) or {})
            limits |= {f"{prefix}{name}": entry for name, entry in own.items()}
        return limits

    def files(self) -> Rung:
        does = "reads checkpoint, data set and calibration"
        if not self.refs and self.recording is None:
            return Rung("files", does, "", None, "neither --policy.path nor --dataset.repo_id was given")

        def run() -> Outcome:
            session, robot = self.session, self.inputs.robot
            same = session is not None and session.same
            return judge_files(
                Files(
                    ref=self.refs[-1] if self.refs else None,
                    recording=self.recording,
                    episodes=self.inputs.episodes,
                    trained=session.split.of(TRAIN) if session is not None and same else None,
                    same=same,
                    robot=None if robot is None else robot_side(robot.observation_features, robot.action_features),
                    joints=None if robot is None else robot_joints(robot),
                    calibration=None if robot is None else self._calibration,
                    rename_map=self.inputs.rename_map,
                    fps=self.inputs.fps,
                )
            )

        return Rung("files", does, "seconds", run)

    def devices(self) -> Rung:
        does = "opens ports and cameras, asks every servo, reads at control rate"
        if self.inputs.robot is None:
            return Rung("devices", does, "", None, "no --robot.type was given")

        def run() -> Outcome:
            hz = self.inputs.fps or (self.recording.fps if self.recording is not None else 30.0)
            findings: list[Finding] = []
            tables = []
            with open_for_reading(self.inputs.robot) as live:
                findings += devices.judge_ports(live)
                for arm in live.arms:
                    if not arm.answering:
                        continue
                    findings += devices.judge_supply(arm.prefix, devices.read_registers(arm))
                    said, shown = devices.judge_arm(arm)
                    findings += said
                    tables += shown
                counted = devices.soak(live, hz, self.soak_s, clock=self.clock, sleep=self.sleep)
                expected = {name: float(getattr(c.config, "fps", None) or hz) for name, c in live.cameras.items()}
                said, shown = self._since_baseline(live)
                findings += said
                tables += shown
            if counted.last.joints or counted.last.pictures or counted.failed:
                said, table = devices.judge_soak(counted, hz, expected)
                findings += said
                tables += [table] if table.rows else []
            self.soaked = counted
            return Outcome(findings, tables, results={"joints": counted.last.joints, "readings_hz": counted.rate})

        return Rung("devices", does, f"{self.soak_s:.0f} s and a few", run)

    def _since_baseline(self, live: LiveRobot) -> tuple[list[Finding], list[Table]]:
        """What has changed since the snapshot; its pictures only where no recording has better ones."""
        if self.baseline is None:
            return [], []
        before, pictures = self.baseline
        folder = self.output_dir / "snapshot"
        now = snapshot.take(live, self.versions, folder)
        taken = snapshot.load(snapshot.save(now, folder))[1]
        better = self.recording is not None and bool(self.recording.cameras)
        return snapshot.diff(before, now, {} if better else pictures, taken)

    def views(self) -> Rung:
        does = "compares the live pictures with the recorded ones, where the arm stands"
        recording = self.recording
        if self.inputs.robot is None or recording is None or not recording.cameras:
            needs = "a robot with cameras and a data set with pictures are needed"
            return Rung("cameras, light, workspace", does, "", None, needs)

        def run() -> Outcome:
            pictures = self.soaked.pictures if self.soaked is not None else {}
            if not pictures:
                summary = "No live picture to compare."
                return Outcome([Finding("MISSING_CAMERA", Status.UNKNOWN, Cause.CAMERAS, "cameras", summary)])
            live = {self._recorded_name(name): taken for name, taken in pictures.items()}
            episodes = [e for e in self._healthy_episodes(recording) if self._has_videos(recording, e)]
            if not episodes:
                summary = "No recorded picture to compare with."
                return Outcome([Finding("MISSING_FILES", Status.UNKNOWN, Cause.DATA, "videos", summary)])
            assert self.soaked is not None
            state = live_state(recording, self.soaked.last.joints)
            if state is not None:
                units = robot_units(
                    robot_joints(self.inputs.robot),
                    np.concatenate([recording.episode(e).states for e in episodes[:8]]),
                    recording.state_names,
                )
                if any(f.status is Status.FAIL for f in units):
                    state = None
            references = read_references(recording, episodes, recording.cameras, state)
            return judge_views(live, references, state, self.output_dir)

        return Rung("cameras, light, workspace", does, "half a minute", run)

    def _healthy_episodes(self, recording: Recording) -> Sequence[int]:
        """Those asked for, else those that training was given, else all."""
        if self.inputs.episodes is not None:
            return self.inputs.episodes
        trained = self.session.split.of(TRAIN) if self.session is not None and self.session.same else ()
        return trained or list(recording.episode_indices)

    def _has_videos(self, recording: Recording, index: int) -> bool:
        episode = recording.episode(index)
        return all(episode.video_path(camera).is_file() for camera in recording.video_cameras)

    def _recorded_name(self, camera: str) -> str:
        """The recorded camera that feeds the policy what this live one does."""
        saved = saved_rename(self.refs[-1].read_json(PREPROCESSOR)) if self.refs else {}
        rename = saved if self.inputs.rename_map is None else self.inputs.rename_map
        assert self.recording is not None
        own = {rename.get(key, key): key for key in self.recording.cameras}
        key = IMAGES + camera
        return camera_name(own.get(rename.get(key, key), key))

    def clock_rung(self) -> Rung:
        does = "times the policy on this computer"
        session = self.session
        if session is None:
            return Rung("clock", does, "", None, "no --policy.path was given")

        def run() -> Outcome:
            fps = self.inputs.fps or session.recording.fps
            call, horizon = look(self.loaded, session.recording, self._healthy_episodes(session.recording)[0])
            rate = self.soaked.rate if self.soaked is not None else None
            rtc = hasattr(self.loaded.config, "rtc_config")
            return judge_clock(
                measure(call, self.clock),
                horizon,
                fps,
                device=self.loaded.device,
                rtc=rtc,
                here=self.inputs.robot is not None,
                loop_hz=rate,
            )

        return Rung("clock", does, "a dozen predictions", run)

    def model(self) -> Rung:
        does = "predicts recorded episodes with the checkpoint and compares"
        session = self.session
        if session is None:
            return Rung("open loop", does, "", None, "no --policy.path was given")

        def run() -> Outcome:
            return judge_model(
                session,
                lambda ref: self.loaded if ref is self.refs[-1] else self._load(ref),
                episodes=self.inputs.episodes,
                output_dir=self.output_dir,
                versions=self.versions,
            )

        return Rung("open loop", does, "about a minute on a small computer", run)

    def recordings(self) -> Rung:
        name, does = "two recordings", "compares where two recordings show the arm at the same joint readings"
        before = self.recording
        if before is None:
            return Rung(name, does, "", None, "--dataset_after is compared with --dataset, and none was given")

        def run() -> Outcome:
            from lerobot_diagnostics.sight import compare_recordings
            from lerobot_diagnostics.sight.play import compare_arms

            after = open_recording(**(self.inputs.after or {}))
            compared = compare_recordings(before, after, episodes=self.inputs.episodes)
            return Outcome(compared.findings, [compare_arms(compared.zeros)] if compared.zeros else [])

        return Rung(name, does, "a minute", run)

    def _moving(self, name: str, does: str, lasts: str, run: Callable[[Recording], Outcome]) -> Rung:
        """A rung that moves the arm: only with a data set, and only where nothing forbids it."""
        recording = self.recording
        if self.inputs.robot is None or recording is None:
            return Rung(name, does, "", None, "a robot and a data set are needed")
        return self._allowed(name, does, lasts, lambda: run(recording))

    def _allowed(self, name: str, does: str, lasts: str, run: Callable[[], Outcome]) -> Rung:
        """A rung that moves the arm, where nothing forbids it."""
        failed = [f for f in self.found if f.status is Status.FAIL and f.cause in FORBIDS_MOTION]
        forbids = [f for f in failed if f.code not in MODEL_ERRORS]
        if forbids:
            return Rung(name, does, "", None, f"settle {forbids[0].code} ({forbids[0].subject}) before the arm moves")
        return Rung(name, does, lasts, run, moves=True)

    def _right_cameras(self, recording: Recording) -> dict[str, str]:
        """Recorded key to live camera, of those that show the recorded view."""
        live = self.soaked.pictures if self.soaked is not None else {}
        recorded = {camera_name(key): key for key in recording.cameras}
        wrong = {f.subject for f in self.found if f.status is Status.FAIL and f.cause is Cause.CAMERAS}
        wrong |= {f.subject for f in self.found if f.code == "UNDECIDED"}
        shown = {self._recorded_name(name): name for name in live}
        return {recorded[name]: camera for name, camera in shown.items() if name in recorded and name not in wrong}

    def _driving(self) -> AbstractContextManager[motion.Driver]:
        """The arm, connected for motion."""
        return motion.driving(self.inputs.robot, yes=self.inputs.yes, clock=self.clock, sleep=self.sleep)

    def sight(self) -> Rung:
        does = "drives slowly to recorded poses, the highest first, and looks where the arm appears"

        def run(recording: Recording) -> Outcome:
            cameras = self._right_cameras(recording)
            if not cameras:
                return by_nudges() if self.nudges else motion.cannot("no camera shows its recorded view")
            episodes = [e for e in self._healthy_episodes(recording) if self._has_videos(recording, e)]
            with self._driving() as driver:
                outcome = motion.judge_by_sight(driver, recording, episodes, cameras)
                moved = moved_cameras(outcome.findings, self.found)
                outcome = dataclasses.replace(outcome, findings=[*outcome.findings, *moved])
                return nudging.settle(driver, outcome, self.nudges) if self.nudges else outcome

        def by_nudges() -> Outcome:
            with self._driving() as driver:
                return nudging.judge(driver, self.nudges)

        if self.recording is None and self.nudges:
            does = "drives slowly to the snapshot's poses, and looks where the arm appears"
            return self._allowed("calibration by sight", does, "half a minute", by_nudges)
        return self._moving("calibration by sight", does, "two minutes", run)

    def removal(self) -> Rung:
        name, does = (
            "remove the object",
            "asks the policy with the object there and with it gone; nothing it says is sent",
        )
        if not self.refs:
            return Rung(name, does, "", None, "no --policy.path was given")
        if self.inputs.yes:
            return Rung(name, does, "", None, "somebody has to take the object away: run it without --yes=true")

        def run(recording: Recording) -> Outcome:
            episodes = [e for e in self._healthy_episodes(recording) if self._has_videos(recording, e)]
            cameras = self._right_cameras(recording)
            with self._driving() as driver:
                return removal.judge_removal(driver, self.loaded, recording, episodes, cameras, self.output_dir)

        return self._moving(name, does, "a minute", run)

    def replay(self) -> Rung:
        does = "sends an episode's recorded actions, half as fast, and compares"

        def run(recording: Recording) -> Outcome:
            index = self._healthy_episodes(recording)[0]
            with self._driving() as driver:
                return motion.judge_replay(
                    driver, recording.episode(index), self._right_cameras(recording), self.output_dir,
                    speed=REPLAY_SPEED, versions=self.versions,
                )  # fmt: skip

        return self._moving("replay", does, "a minute", run)


def summarize(climbed: Sequence[Climbed], inputs: Inputs, versions: Mapping[str, str]) -> Report:
    """One report of all rungs, its verdict from :mod:`.attribution`."""
    found = silence(_once(finding for step in climbed for finding in step.outcome.findings))
    unseen = inputs.robot is not None and inputs.baseline is None and inputs.after is None and not inputs.replay
    not_looked = [ZEROS] if unseen else []
    not_looked += [f"{step.rung.name}: {step.stopped}" for step in climbed if step.stopped]
    ended = interrupted(climbed)
    again = "run it again, to its end." if ended is not None else ""
    verdict = attribute(
        found,
        not_looked=not_looked,
        next_command=lambda finding: again if again and finding is None else next_command(finding, inputs),
        healthy=_healthy(climbed),
    )
    if ended is not None:
        cause = "undecided" if verdict.cause == "none_found" else verdict.cause
        summary = f"Interrupted during {ended.name}. {verdict.summary}"
        verdict = dataclasses.replace(verdict, cause=cause, summary=summary)
    return Report(
        command=COMMAND,
        verdict=verdict,
        findings=by_severity(found),
        inputs=inputs.shown,
        versions=versions,
        timings={f"{step.rung.name.replace(' ', '_')}_s": step.seconds for step in climbed if not step.stopped},
        results={"rules": evidence_of(found)}
        | {step.rung.name: dict(step.outcome.results) for step in climbed}
        | ({"interrupted": ended.name} if ended is not None else {}),
        tables=[ladder_table(climbed), *(table for step in climbed for table in step.outcome.tables)],
        pictures=[picture for step in climbed for picture in step.outcome.pictures],
    )


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """Two rungs that cannot tell the same thing say so once."""
    kept: list[Finding] = []
    unknown = set()
    for finding in findings:
        about = (finding.code, finding.subject)
        if finding.status is Status.UNKNOWN and about in unknown:
            continue
        if finding.status is Status.UNKNOWN:
            unknown.add(about)
        kept.append(finding)
    return kept


def zero_offsets(findings: Iterable[Finding]) -> dict[str, float]:
    """By joint how much it reads too much (degrees, the gripper in its 0–100), of the zeros seen to have moved."""
    moved = [f for f in findings if f.code == "JOINT_OFFSET" and f.status is Status.FAIL]
    offsets = {f.subject: f.evidence.get("offset_deg", f.evidence.get("offset_pct")) for f in moved}
    return {joint: float(offset) for joint, offset in offsets.items() if offset is not None}


def _healthy(climbed: Sequence[Climbed]) -> str:
    done = [step.rung.name for step in climbed if not step.stopped]
    return f"No fault was found by {', '.join(done)}." if done else "Nothing was looked at."


def next_command(finding: Finding | None, inputs: Inputs) -> str:
    """The single next step: the finding's own fix, or the command that looks further.

    Args:
        finding: The one on top; None where nothing was found.
        inputs: What was given, for the flags.
    """
    if finding is not None and finding.fix:
        return finding.fix
    data = _flag("dataset.repo_id", inputs.repo_id) + _flag("dataset.root", inputs.root)
    policy = _flag("policy.path", inputs.policy_path)
    if finding is not None and finding.cause in {Cause.MODEL, Cause.DATA}:
        return f"`lerobot-open-loop-eval{policy}{data}`"
    if finding is None and not policy:
        return f"`lerobot-diagnose --policy.path=<checkpoint>{data}`"
    if inputs.robot is None:
        robot = " --robot.type=so101_follower --robot.port=<port> --robot.cameras=<cameras>"
        return f"`lerobot-diagnose{policy}{data}{robot}`"
    robot = "".join(f" {shlex.quote(flag)}" for flag in inputs.robot_flags)
    if not data:
        return f"`lerobot-diagnose{robot} --dataset.repo_id=<data set>`"
    return f"`lerobot-replay-compare{robot}{data} --dataset.episode=0`"


def _flag(name: str, value: object | None) -> str:
    return "" if value is None else f" --{name}={value}"
