"""The MuJoCo model: the public SO-101 on a table with a cube and a tray, seen by three cameras.

The arm comes from the package ``so101-nexus`` (MuJoCo Menagerie's ``robotstudio_so101``, Apache-2.0), which is located
but never imported. World frame: origin at the arm's base, x forward, y to the arm's left, z up, metres.
"""

from __future__ import annotations

import copy
import importlib.util
import os
import sys
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lerobot_diagnostics.errors import UsageError

if sys.platform.startswith("linux") and not os.environ.get("DISPLAY"):
    os.environ.setdefault("MUJOCO_GL", "egl")  # read by mujoco when it is imported; its default needs a display

import cv2
import mujoco
import trimesh

INSTALL = "Install the simulated arm with: pip install 'lerobot-diagnostics[sim]'"

TIMESTEP_S = 1 / 300
"""A whole number of steps to a frame at 10, 20, 25, 30, 50 and 60 fps."""

CUBE_HALF_M = 0.0125
CUBE_XY_M = (0.26, -0.06)
TRAY_XY_M = (0.22, 0.13)
TRAY_HALF_M = 0.045
TRAY_WALL_M = 0.012

VISUAL_CELL_M = 0.003
"""Vertices of visual meshes are merged within cells of this size.

Median of two 320×240 pictures in software (EGL, two cores): all 348,164 mesh faces with shadows, reflections and
multisampling 839 ms; the same without those three 100 ms; 27,590 faces (3 mm) 10 ms; 20,954 (5 mm) 8 ms.
"""


def arm_xml() -> Path:
    """Path of the SO-101's MJCF in the installed package.

    Raises:
        UsageError: ``so101-nexus`` is not installed, or holds no such file.
    """
    package = importlib.util.find_spec("so101_nexus")
    for folder in (package.submodule_search_locations if package else None) or ():
        path = Path(folder) / "assets" / "SO101_menagerie" / "so101.xml"
        if path.is_file():
            return path
    raise UsageError("The SO-101 model of the package so101-nexus was not found.", INSTALL)


def build() -> mujoco.MjModel:
    """The scene, compiled once (0.8 s) and copied, so that callers may change theirs.

    Raises:
        UsageError: The arm's model is not installed.
    """
    return copy.copy(_compiled())


@cache
def _compiled() -> mujoco.MjModel:
    xml = arm_xml()
    spec = mujoco.MjSpec.from_file(str(xml))
    spec.option.timestep = TIMESTEP_S
    spec.visual.quality.shadowsize = 0  # shadows and multisampling: see VISUAL_CELL_M
    spec.visual.quality.offsamples = 0
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1920, 1080
    spec.visual.headlight.ambient = [0.35, 0.35, 0.35]
    spec.visual.headlight.diffuse = [0.3, 0.3, 0.3]
    spec.visual.headlight.specular = [0, 0, 0]
    _simplify_visual_meshes(spec, xml.parent / spec.meshdir)
    _add_surroundings(spec)
    _add_cameras(spec)
    return spec.compile()


def _simplify_visual_meshes(spec: mujoco.MjSpec, folder: Path) -> None:
    """Coarsen the meshes that are only looked at; those that collide or carry mass stay as they are."""
    meshes = [geom for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_MESH]
    physical = {geom.meshname for geom in meshes if geom.contype or geom.conaffinity or geom.mass > 0}
    for asset in spec.meshes:
        if asset.name in physical:
            continue
        mesh = trimesh.load_mesh(folder / asset.file)
        mesh.apply_scale(1 / VISUAL_CELL_M)
        mesh.merge_vertices(digits_vertex=0)
        mesh.update_faces(mesh.unique_faces() & mesh.nondegenerate_faces())
        mesh.remove_unreferenced_vertices()
        mesh.apply_scale(VISUAL_CELL_M)
        asset.file = ""
        asset.uservert = mesh.vertices.ravel()
        asset.userface = mesh.faces.ravel()
        asset.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL  # coarse meshes need not be closed


def _add_surroundings(spec: mujoco.MjSpec) -> None:
    world = spec.worldbody
    for name, seed, base, spread in (("table", 1, (150, 135, 110), 0.3), ("backdrop", 2, (95, 115, 120), 0.3)):
        picture = _texture(seed, base, spread)
        texture = spec.add_texture(
            name=name, type=mujoco.mjtTexture.mjTEXTURE_2D, width=picture.shape[1], height=picture.shape[0], nchannel=3
        )
        texture.data = picture.tobytes()
        material = spec.add_material(name=name, specular=0.0, reflectance=0.0)
        material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = name
    world.add_light(
        pos=[0.3, 0.4, 1.5], dir=[-0.1, -0.25, -1.0], diffuse=[0.45, 0.45, 0.45], specular=[0.1, 0.1, 0.1],
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, castshadow=False,
    )  # fmt: skip
    box, plane = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_PLANE
    world.add_geom(name="table", type=plane, pos=[0.5, 0, 0], size=[1.0, 1.6, 0.1], material="table")
    world.add_geom(
        name="backdrop", type=plane, pos=[-0.5, 0, 0.6], size=[0.6, 1.6, 0.1], zaxis=[1, 0, 0], material="backdrop",
        contype=0, conaffinity=0,
    )  # fmt: skip

    tray = world.add_body(name="tray", pos=[*TRAY_XY_M, 0])
    colour = [0.15, 0.35, 0.75, 1]
    tray.add_geom(type=box, size=[TRAY_HALF_M, TRAY_HALF_M, 0.0015], pos=[0, 0, 0.0015], rgba=colour)
    for axis, side in ((0, 1), (0, -1), (1, 1), (1, -1)):
        size, pos = [TRAY_HALF_M, TRAY_HALF_M, TRAY_WALL_M], [0.0, 0.0, TRAY_WALL_M]
        size[axis], pos[axis] = 0.002, side * TRAY_HALF_M
        tray.add_geom(type=box, size=size, pos=pos, rgba=colour)

    cube = world.add_body(name="cube", pos=[*CUBE_XY_M, CUBE_HALF_M])
    cube.add_freejoint(name="cube")
    # Soft plastic on a rubbery gripper: the friction keeps a held cube from sliding, the condim from twisting.
    cube.add_geom(
        name="cube", type=box, size=[CUBE_HALF_M] * 3, mass=0.012, rgba=[0.8, 0.12, 0.1, 1],
        friction=[1.0, 0.01, 0.001], condim=4, solref=[0.01, 1],
    )  # fmt: skip


def _texture(seed: int, base: tuple[int, int, int], spread: float, size: int = 1024) -> NDArray[np.uint8]:
    """A surface with something to register on at every scale: smooth noise of 4 to 64 texels, added up."""
    rng = np.random.default_rng(seed)
    total = np.zeros((size, size, 1), np.float32)
    for cell in (4, 8, 16, 32, 64):
        noise = rng.uniform(-1, 1, (size // cell, size // cell)).astype(np.float32)
        total += cv2.resize(noise, (size, size), interpolation=cv2.INTER_CUBIC)[..., None]
    picture: NDArray[np.uint8] = np.clip(np.array(base) * (1 + spread * total), 0, 255).astype(np.uint8)
    return picture


def _add_cameras(spec: mujoco.MjSpec) -> None:
    """``wrist`` is the model's own, on its camera mount; the others stand in the room."""
    for name, position, target in (
        ("front", (0.66, -0.10, 0.40), (0.17, 0.03, 0.07)),
        ("top", (0.24, 0.0, 0.80), (0.2399, 0.0, 0.0)),
    ):
        spec.worldbody.add_camera(name=name, pos=position, quat=_look_at(position, target), fovy=45)
    spec.camera("wrist_cam").name = "wrist"


def _look_at(position: tuple[float, ...], target: tuple[float, ...]) -> NDArray[np.float64]:
    """Quaternion (w, x, y, z) of a camera (x right, y up, looking along −z) at ``position`` that sees ``target``."""
    back = np.subtract(position, target)
    back /= np.linalg.norm(back)
    right = np.cross((0.0, 0.0, 1.0), back)
    right /= np.linalg.norm(right)
    quaternion = np.empty(4)
    mujoco.mju_mat2Quat(quaternion, np.column_stack((right, np.cross(back, right), back)).ravel())
    return quaternion
