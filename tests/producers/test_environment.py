"""Device, machine and sources; NVML through a library that answers like the real one."""

from __future__ import annotations

import ctypes

import pytest

from producers import environment, nvml
from producers.errors import RefusedError, UsageError


class FakeNvml:
    """The functions of libnvidia-ml that a card asks, answering for one H200."""

    pids = ()
    percent = 0

    def nvmlDeviceGetName(self, _handle, buffer, _size):  # noqa: N802 - NVML's name
        buffer.value = b"NVIDIA H200"
        return 0

    def nvmlDeviceGetUUID(self, _handle, buffer, _size):  # noqa: N802
        buffer.value = b"GPU-1234"
        return 0

    def nvmlSystemGetDriverVersion(self, buffer, _size):  # noqa: N802
        buffer.value = b"580.1"
        return 0

    def nvmlDeviceGetEnforcedPowerLimit(self, _handle, value):  # noqa: N802
        value._obj.value = 700_000
        return 0

    def nvmlDeviceGetPowerUsage(self, _handle, value):  # noqa: N802
        value._obj.value = 350_500
        return 0

    def nvmlDeviceGetMemoryInfo(self, _handle, value):  # noqa: N802
        value._obj.total = 150 << 30
        return 0

    def nvmlDeviceGetUtilizationRates(self, _handle, value):  # noqa: N802
        value._obj.gpu = self.percent
        return 0

    def nvmlDeviceGetClockInfo(self, _handle, kind, value):  # noqa: N802
        value._obj.value = {1: 1980, 2: 3201}[kind.value]
        return 0

    def nvmlDeviceGetTemperature(self, _handle, _sensor, _value):  # noqa: N802
        return 3  # not supported

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _handle, value):  # noqa: N802
        value._obj.value = 0x1 | 0x4 | 0x20  # idle, power cap, thermal
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, _handle, count, infos):  # noqa: N802
        for info, pid in zip(infos, self.pids, strict=False):
            info.pid = pid
        count._obj.value = len(self.pids)
        return 0


@pytest.fixture
def library():
    return FakeNvml()


@pytest.fixture
def on_card(library, monkeypatch):
    """An environment with that card as the first one."""
    card = nvml.Card(library, ctypes.c_void_p())
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(nvml, "open_card", lambda index: card if index == 0 else None)
    monkeypatch.setattr(nvml, "driver_attributes", lambda _index: (132, 50 << 20))
    return environment.detect()


def test_a_card_is_named_as_in_the_lake(on_card):
    columns = on_card.columns()

    assert {
        "device": "NVIDIA H200",
        "device_uuid": "GPU-1234",
        "driver_version": "580.1",
        "power_limit_w": 700.0,
        "sm_count": 132,
        "l2_bytes": 50 << 20,
        "memory_bytes": 150 << 30,
    }.items() <= columns.items()
    assert on_card.device.is_cuda


def test_the_state_of_a_card_has_units_and_none_for_unknown(on_card):
    assert on_card.state() == nvml.CardState(1980.0, 3201.0, None, 350.5, "sw-power-cap,sw-thermal")


def test_an_idle_card_may_race(on_card):
    environment.refuse_busy(on_card)


def test_a_card_with_other_processes_is_refused(on_card, library):
    library.pids = (17, 4242)

    with pytest.raises(RefusedError, match=r"in use by process 17, 4242; .* --busy-ok"):
        environment.refuse_busy(on_card)


def test_a_busy_card_whose_processes_are_hidden_is_refused(on_card, library):
    library.percent = 37

    with pytest.raises(RefusedError, match="37% busy"):
        environment.refuse_busy(on_card)


def test_a_card_that_is_not_there_is_a_usage_error(on_card):
    assert on_card.card is not None
    with pytest.raises(UsageError, match="no CUDA device 3"):
        environment.detect(3)


@pytest.mark.parametrize(("name", "value"), [("TRITON_INTERPRET", "1"), ("CUDA_VISIBLE_DEVICES", "")])
def test_the_interpreter_can_be_asked_for_where_there_is_a_card(on_card, monkeypatch, name, value):
    assert on_card.card is not None
    monkeypatch.setenv(name, value)

    found = environment.detect()

    assert found.device.device == "cpu-interpreter"
    assert found.device.device_uuid.startswith("cpu-")
    assert found.state() == nvml.CardState()


def test_cuda_visible_devices_picks_the_card_by_uuid(on_card, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1234")

    assert environment.detect().device == on_card.device


def test_the_hash_of_the_sources_sees_names_and_contents(tmp_path):
    package = tmp_path / "dispatch"
    package.mkdir()
    (package / "a.py").write_text("x = 1\n")
    (package / "notes.txt").write_text("not a source")
    first = environment.hash_sources(tmp_path, ("dispatch",))

    (package / "notes.txt").write_text("still not a source")
    assert environment.hash_sources(tmp_path, ("dispatch",)) == first
    (package / "a.py").write_text("x = 2\n")
    second = environment.hash_sources(tmp_path, ("dispatch",))
    (package / "a.py").rename(package / "b.py")
    third = environment.hash_sources(tmp_path, ("dispatch",))
    assert len({first, second, third}) == 3


def test_outside_a_checkout_there_is_no_revision(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    sources = environment.read_sources(tmp_path)

    assert (sources.source_revision, sources.source_dirty) == (None, None)
