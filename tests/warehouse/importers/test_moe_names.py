"""File names of tuned tables, field by field."""

from __future__ import annotations

import pytest

from warehouse.importers.moe_names import TableName, looks_like_table, parse_name, triton_version_of_folder


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("E=128,N=768,device_name=NVIDIA_H200.json", TableName(128, 768, "NVIDIA H200")),
        (
            "E=160,N=192,device_name=NVIDIA_H200,dtype=fp8_w8a8.json",
            TableName(160, 192, "NVIDIA H200", dtype="fp8_w8a8"),
        ),
        (
            "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json",
            TableName(128, 384, "NVIDIA H200", dtype="fp8_w8a8", block_shape="128,128", loader="sglang"),
        ),
        (
            "E=256,N=128,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8,block_shape=[128,128].json",
            TableName(
                256, 128, "AMD Instinct MI300X", dtype="fp8_w8a8", block_shape="128,128", loader="vllm"
            ),
        ),
        (
            "E=8,N=14336,device_name=Intel(R)_Arc(TM)_B580,_rev-2,dtype=int8_w8a8,per_channel_quant=True",
            TableName(8, 14336, "Intel(R) Arc(TM) B580, rev-2", dtype="int8_w8a8", per_channel_quant=True),
        ),
        (
            "E=257,N=256,device_name=NVIDIA_H20,dtype=fp8_w8a8,block_shape=[128, 128]_down.json",
            TableName(
                257, 256, "NVIDIA H20", dtype="fp8_w8a8", block_shape="128,128", down=True, loader="sglang"
            ),
        ),
    ],
)
def test_a_name_is_read_by_its_known_keys(name: str, expected: TableName) -> None:
    assert looks_like_table(name)
    assert parse_name(name) == expected


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("E=8,N=16.json", "no device_name"),
        ("E=8,N=16,device_name=.json", "no device_name"),
        ("E=8,N=x,device_name=X.json", "N=x is no size"),
        ("E=0,N=16,device_name=X.json", "E=0 is no size"),
        ("E=8,N=16,device_name=X,N=16.json", "each key once"),
        ("E=8,N=16,device_name=X,block_shape=[128.json", "no pair of numbers"),
        ("E=8,N=16,device_name=X,per_channel_quant=yes.json", "neither True nor False"),
        ("moe_sum_reduce_NVIDIA_H200_t8_h2048_bfloat16.json", "each key once"),
    ],
)
def test_a_name_that_is_none_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_name(name)


def test_a_folder_of_sglang_names_the_version() -> None:
    assert triton_version_of_folder("triton_3_4_0") == "3.4.0"
    assert triton_version_of_folder("configs") is None
