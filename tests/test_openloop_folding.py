"""Folding changes how a policy computes, not what."""

import numpy as np
import pytest
import torch
import torchvision
from torch import nn
from torchvision.models._utils import IntermediateLayerGetter
from torchvision.ops.misc import FrozenBatchNorm2d

from lerobot_diagnostics.openloop.folding import folded


def resnet(make, norm):
    torch.manual_seed(0)
    model = make(weights=None, norm_layer=norm).eval()
    for module in model.modules():
        if isinstance(module, norm):  # as after training: no statistic is one or zero
            for name in ("weight", "running_var"):
                getattr(module, name).data.uniform_(0.5, 1.5)
            for name in ("bias", "running_mean"):
                getattr(module, name).data.uniform_(-0.3, 0.3)
    return model


def norms(model):
    return sum(isinstance(module, nn.BatchNorm2d | FrozenBatchNorm2d) for module in model.modules())


@pytest.mark.parametrize(
    ("make", "norm"),
    [
        (torchvision.models.resnet18, FrozenBatchNorm2d),
        (torchvision.models.resnet18, nn.BatchNorm2d),
        (torchvision.models.resnet50, FrozenBatchNorm2d),
    ],
)
def test_a_resnet_without_normalisation_layers_says_the_same(make, norm):
    policy = nn.ModuleDict({"backbone": IntermediateLayerGetter(resnet(make, norm), {"layer4": "map"})})
    modules, state = list(policy.modules()), {k: v.clone() for k, v in policy.state_dict().items()}
    pictures = torch.rand(2, 3, 64, 96)
    with torch.inference_mode():
        before = policy["backbone"](pictures)["map"]
        with folded(policy):
            assert norms(policy) == 0
            inside = policy["backbone"](pictures)["map"]
        after = policy["backbone"](pictures)["map"]
    np.testing.assert_allclose(inside, before, rtol=1e-4, atol=1e-4 * float(before.abs().max()))
    assert torch.equal(after, before)
    assert all(one is other for one, other in zip(policy.modules(), modules, strict=True))
    assert all(torch.equal(value, state[key]) for key, value in policy.state_dict().items())


@pytest.mark.parametrize("change", [nn.Module.train, nn.Module.half])
def test_what_is_trained_or_in_half_precision_is_left_alone(change):
    model = change(resnet(torchvision.models.resnet18, nn.BatchNorm2d))
    count = norms(model)
    with folded(model):
        assert norms(model) == count > 0


def test_a_normalisation_of_unknown_place_is_left_alone():
    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

        def forward(self, pictures):
            return self.conv1(self.bn1(pictures))

    model = Other().eval()
    with folded(model):
        assert norms(model) == 1


def test_it_is_undone_when_predicting_fails():
    model = resnet(torchvision.models.resnet18, FrozenBatchNorm2d)
    count = norms(model)
    with pytest.raises(ZeroDivisionError), folded(model):
        raise ZeroDivisionError
    assert norms(model) == count
