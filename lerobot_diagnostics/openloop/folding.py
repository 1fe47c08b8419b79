"""Normalisation folded into the convolution before it: the same actions, a third less time for ACT on a CPU.

The frozen batch normalisation of a ResNet multiplies and shifts each channel that a convolution gives. In the
convolution's own weights that costs nothing, and what is left may stay in the channels-last layout, in which oneDNN's
convolutions are fastest.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator

import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck
from torchvision.ops.misc import FrozenBatchNorm2d


@contextlib.contextmanager
def folded(policy: nn.Module) -> Iterator[None]:
    """Fold the normalisation of torchvision's ResNets inside a policy on a CPU; undone at the end.

    Actions change by single-precision rounding; ``benchmarks/open_loop.py`` prints by how much.

    Args:
        policy: In evaluation mode; left alone elsewhere than on a CPU.
    """
    undo: list[tuple[nn.Module, str, nn.Module]] = []
    try:
        for parent, conv, norm in list(_pairs(policy)):
            before, after = getattr(parent, conv), getattr(parent, norm)
            # in half precision the folded weights would be rounded before they are used
            if before.weight.device.type == "cpu" and before.weight.dtype == torch.float32 and not after.training:
                undo += [(parent, conv, before), (parent, norm, after)]
                setattr(parent, conv, _fold(before, after))
                setattr(parent, norm, nn.Identity())
        yield
    finally:
        for parent, name, module in undo:
            setattr(parent, name, module)


def _pairs(policy: nn.Module) -> Iterator[tuple[nn.Module, str, str]]:
    """Names of a convolution and of the normalisation right behind it, with the module that holds both.

    Which follows which is known of torchvision's own blocks only: names alone would not prove it.
    """
    for module in policy.modules():
        names: list[tuple[str, str]] = []
        if isinstance(module, BasicBlock | Bottleneck):
            names = [(f"conv{i}", f"bn{i}") for i in (1, 2, 3)]
            if isinstance(module.downsample, nn.Sequential):
                yield from ((module.downsample, *pair) for pair in _known(module.downsample, [("0", "1")]))
        elif _is_resnet(module):
            names = [("conv1", "bn1")]  # of the whole ResNet, or of its layers up to one of them
        yield from ((module, *pair) for pair in _known(module, names))


def _is_resnet(module: nn.Module) -> bool:
    first = getattr(module, "layer1", None)
    return isinstance(first, nn.Sequential) and isinstance(first[0], BasicBlock | Bottleneck)


def _known(module: nn.Module, names: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for conv, norm in names:
        if isinstance(getattr(module, conv, None), nn.Conv2d) and isinstance(
            getattr(module, norm, None), nn.BatchNorm2d | FrozenBatchNorm2d
        ):
            yield conv, norm


def _fold(conv: nn.Conv2d, norm: nn.BatchNorm2d | FrozenBatchNorm2d) -> nn.Conv2d:
    """One convolution that gives what the two gave: ``w·γ/√(σ²+ε)`` and ``(b − µ)·γ/√(σ²+ε) + β``."""
    with torch.no_grad():
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        weight = conv.weight * scale[:, None, None, None]
        bias = norm.bias + (-norm.running_mean if conv.bias is None else conv.bias - norm.running_mean) * scale
        one = copy.copy(conv)
        one._parameters = dict(conv._parameters)
        one.weight = nn.Parameter(weight.contiguous(memory_format=torch.channels_last), requires_grad=False)
        one.bias = nn.Parameter(bias, requires_grad=False)
    return one
