"""The seam for 0.6.1's closed list of strategies, and the convention by which a later LeRobot needs none."""

import sys
import types

import pytest
from lerobot.rollout import BaseStrategy
from lerobot.rollout.configs import BaseStrategyConfig, RolloutStrategyConfig
from lerobot.rollout.strategies import factory
from lerobot.utils.import_utils import make_device_from_device_class

from lerobot_diagnostics.align import _seam
from lerobot_diagnostics.align.align import AlignStrategy
from lerobot_diagnostics.align.config_align import AlignStrategyConfig


@pytest.fixture
def stock(monkeypatch):
    """LeRobot as it was before any discovery in this process, in the factory and in a script that imported it."""

    def create_strategy(config):
        if config.type == "base":
            return BaseStrategy(config)
        raise ValueError(f"Unknown strategy type '{config.type}'")

    script = types.ModuleType("__main__of_a_test__")
    script.create_strategy = create_strategy
    monkeypatch.setattr(factory, "create_strategy", create_strategy)
    monkeypatch.setitem(sys.modules, script.__name__, script)
    return script


def test_every_holder_of_create_strategy_learns_of_align_and_keeps_the_others(stock):
    with pytest.raises(ValueError, match="Unknown strategy type 'align'"):
        stock.create_strategy(AlignStrategyConfig())
    _seam.install()
    for holder in (stock, factory):
        assert isinstance(holder.create_strategy(AlignStrategyConfig()), AlignStrategy)
        assert type(holder.create_strategy(BaseStrategyConfig())) is BaseStrategy


def test_installing_twice_wraps_once(stock):
    _seam.install()
    once = factory.create_strategy
    _seam.install()
    assert factory.create_strategy is once is stock.create_strategy


def test_a_lerobot_that_finds_strategies_itself_is_left_alone(stock, monkeypatch):
    before = stock.create_strategy
    monkeypatch.setattr(RolloutStrategyConfig, "dataset_mode", "none", raising=False)
    _seam.install()
    assert factory.create_strategy is stock.create_strategy is before


def test_the_names_are_those_that_lerobots_resolver_looks_for():
    assert isinstance(make_device_from_device_class(AlignStrategyConfig()), AlignStrategy)
    assert AlignStrategyConfig().type == "align"


def test_no_field_is_of_the_registrys_own_type():
    # draccus would recurse for ever, for every strategy
    for name, field in AlignStrategyConfig.__dataclass_fields__.items():
        assert "RolloutStrategyConfig" not in str(field.type), name
    assert issubclass(AlignStrategyConfig, BaseStrategyConfig)  # so that 0.6.1 refuses --dataset.*
