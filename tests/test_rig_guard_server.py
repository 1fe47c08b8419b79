"""LeRobot's async policy server on a guarded checkpoint: it gives no action and its log says why."""

import os
import pickle
import socket
import subprocess
import sys
import time

import pytest
from rig import stock
from rig.servos import REST
from vision_scenes import camera, recording

from lerobot_diagnostics.guard.attach import attach
from lerobot_diagnostics.vision import ReferenceViews

grpc = pytest.importorskip("grpc", reason="LeRobot's async inference is not installed")

SEEDS = {"front": 1, "wrist": 2}
SIZE = (96, 128)
"""What the policy takes: the server stretches the cameras' 240 × 320 to it."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    root = tmp_path_factory.mktemp("server")
    policy = stock.checkpoint(root / "policy", dict.fromkeys(SEEDS, SIZE), mean=REST)
    frames, episodes = recording(SEEDS)
    return attach(policy, root / "guarded", ReferenceViews.build(frames, episodes=episodes)).folder


@pytest.fixture
def server(tmp_path):
    """The stock server in a process of its own: (channel, function that stops it and returns its log)."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (tmp_path / "log").open("w+")
    process = subprocess.Popen(
        [sys.executable, "-m", "lerobot.async_inference.policy_server", "--host=127.0.0.1", f"--port={port}"],
        cwd=tmp_path,  # it writes logs/
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    grpc.channel_ready_future(channel).result(timeout=120)

    def said():
        log.flush()
        return (tmp_path / "log").read_text()

    yield channel, said
    channel.close()
    process.terminate()
    process.wait(timeout=20)
    log.close()


def test_no_action_and_the_verdict_in_the_servers_log(guarded, server):
    from lerobot.async_inference.helpers import RemotePolicyConfig, TimedObservation
    from lerobot.transport import services_pb2, services_pb2_grpc
    from lerobot.transport.utils import send_bytes_in_chunks

    channel, said = server
    stub = services_pb2_grpc.AsyncInferenceStub(channel)
    features = {
        "observation.state": {"dtype": "float32", "shape": (6,), "names": stock.NAMES},
        **{
            f"observation.images.{name}": {
                "dtype": "image",
                "shape": (240, 320, 3),
                "names": ["height", "width", "channels"],
            }
            for name in SEEDS
        },
    }
    specs = RemotePolicyConfig("act", str(guarded), features, 10, "cpu")
    stub.Ready(services_pb2.Empty())
    stub.SendPolicyInstructions(services_pb2.PolicySetup(data=pickle.dumps(specs)))

    def chunk(step, **shows):
        observation = {name: camera(SEEDS[view], 0, 1000 + step) for name, view in shows.items()}
        observation |= dict.fromkeys(stock.NAMES, 0.0)
        timed = TimedObservation(timestamp=time.time(), timestep=step, observation=observation, must_go=True)
        stub.SendObservations(send_bytes_in_chunks(pickle.dumps(timed), services_pb2.Observation, silent=True))
        return stub.GetActions(services_pb2.Empty())

    assert not chunk(0, front="wrist", wrist="front").data
    assert "camera-swap guard: SWAPPED: " in said()
    assert not chunk(1, front="wrist", wrist="front").data  # it keeps refusing
    before = said()
    assert len(pickle.loads(chunk(2, front="front", wrist="wrist").data)) == 10  # the control: ten actions
    after = said()[len(before) :]
    assert "RESOLUTION" not in after  # the server stretches pictures: nobody's fault
    assert "FRAMING" not in after
