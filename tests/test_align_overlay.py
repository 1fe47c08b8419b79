"""Overlay, difference and strips."""

import cv2
import numpy as np
import vision_scenes as scenes

from lerobot_diagnostics.align import overlay

A = np.full((48, 64, 3), 200, np.uint8)
B = np.full((48, 64, 3), 100, np.uint8)


def test_overlay_and_difference_are_what_they_say():
    assert np.all(overlay.overlay(A, B) == 150)
    assert np.all(overlay.overlay(A, B, opacity=0.2) == 180)
    assert np.all(overlay.difference(A, B) == 100)
    assert not overlay.difference(A, A).any()


def test_a_live_picture_of_another_size_takes_the_recorded_one():
    big = cv2.resize(A, (128, 96))
    assert overlay.overlay(big, B).shape == B.shape
    assert overlay.strip(big, B).shape == (48 + overlay.CAPTION_HEIGHT, 4 * 64, 3)


def test_a_sheet_holds_a_strip_for_each_camera_and_survives_png():
    live, recorded = {"front": scenes.table(1), "top": A, "new": A}, {"front": scenes.table(2), "top": B}
    sheet = overlay.sheet(live, recorded)
    caption = overlay.CAPTION_HEIGHT
    assert sheet.shape == (240 + 48 + 4 * caption, 4 * 320, 3)
    assert np.array_equal(sheet[2 * caption : 2 * caption + 240, :320], live["front"])
    assert np.array_equal(sheet[2 * caption : 2 * caption + 240, 320:640], recorded["front"])
    decoded = cv2.imdecode(np.frombuffer(overlay.encode_png(sheet), np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    assert np.array_equal(decoded, sheet)
    jpeg = cv2.imdecode(np.frombuffer(overlay.encode_jpeg(scenes.table(1), 95), np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    assert np.abs(jpeg.astype(int) - scenes.table(1)).mean() < 4  # and red is red
