from __future__ import annotations

import itertools
import shutil
import struct
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.lakes import Race, run_id, write
from tests.warehouse.rows import sample
from warehouse import build as module
from warehouse.append import append
from warehouse.build import build
from warehouse.cast import cast
from warehouse.errors import BuildError, LockedError, NoLakeError, StorageError
from warehouse.lake import fingerprint
from warehouse.schema import TABLES, schema_of

Start = Callable[..., subprocess.Popen[str]]


def ask(db: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(db), read_only=True) as con:
        return con.execute(sql).fetchall()


def test_every_table_is_there_with_its_schema_even_when_absent(tmp_path: Path) -> None:
    db = tmp_path / "w.db"
    (tmp_path / "lake").mkdir()
    build([tmp_path / "lake"], db)
    with duckdb.connect(str(db), read_only=True) as con:
        con.execute("SET TimeZone = 'UTC'")
        for table in TABLES:
            found = con.sql(f"SELECT * FROM {table}").to_arrow_table()
            assert found.num_rows == 0
            assert found.schema.names == schema_of(table).names
            kinds = [str(f.type).replace("list<l:", "list<item:") for f in found.schema]
            assert kinds == [str(f.type) for f in schema_of(table)]
    assert ask(db, "SELECT count(*) FROM winners") == [(0,)]


def test_a_race_becomes_tables_views_and_its_policy_taken_apart(lake: Path, tmp_path: Path) -> None:
    db = tmp_path / "w.db"
    report = build([lake], db)
    assert (report.rows["samples"], report.rows["runs"], report.unreadable) == (240, 2, [])
    assert ask(db, "SELECT count(*) FROM samples") == [(240,)]
    assert ask(db, "SELECT value FROM policy_values WHERE key = 'race.min_rounds'") == [("12",)]
    assert ask(
        db,
        "SELECT contestant FROM policy_required WHERE device = 'default' AND precision = 'bf16' ORDER BY 1",
    ) == [("dispatch",), ("sglang",), ("vllm",)]
    info = dict(ask(db, "SELECT key, value FROM build_info"))
    assert (info["lake_fingerprint"], info["schema_version"]) == (fingerprint([lake]), "1")
    assert ask(db, "SELECT DISTINCT status FROM lake_files") == [("ok",)]
    assert ask(db, "SELECT count(*) FROM winners") == [(1,)]


def test_a_view_that_says_so_is_a_table(lake: Path, tmp_path: Path) -> None:
    build([lake], tmp_path / "w.db")
    kinds = dict(ask(tmp_path / "w.db", "SELECT table_name, table_type FROM information_schema.tables"))
    views = Path(__file__).parents[2] / "queries" / "views"
    for path in views.glob("*.sql"):
        script = path.read_text()
        if "CREATE VIEW" in script:
            name = script.split("CREATE VIEW", 1)[1].split()[0]
            first = script.splitlines()[0]
            assert kinds[name] == ("BASE TABLE" if first == "-- materialise" else "VIEW")


def test_rows_of_one_identity_are_kept_once_in_any_order_of_lakes(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write(one, Race())
    shutil.copytree(one, two)
    append(two, "samples", [sample(0), sample(1)])
    for lakes in ([one, two], [two, one], [two]):
        report = build(lakes, tmp_path / "w.db")
        assert (report.rows["samples"], report.rows["cells"], report.conflicts) == (242, 1, ())
    assert build([one, two], tmp_path / "w.db").repeated["samples"] == 240


def test_an_identity_with_two_values_is_a_conflict_that_names_it(tmp_path: Path) -> None:
    append(tmp_path / "b", "samples", [sample(0, time_us=5.0), sample(1)])
    append(tmp_path / "a", "samples", [sample(0, time_us=4.0)])
    kept = set()
    for lakes in itertools.permutations([tmp_path / "a", tmp_path / "b"]):
        report = build(lakes, tmp_path / "w.db")
        (conflict,) = report.conflicts
        assert conflict.startswith("samples: the same identity with different values: run_id ")
        assert "sample 0" in conflict
        assert {file.status for file in report.files} == {"conflict"}
        kept.add(tuple(ask(tmp_path / "w.db", "SELECT time_us FROM samples ORDER BY sample")))
    assert kept == {((4.0,), (101.0,))}


def test_a_policy_registered_twice_keeps_its_first_time_and_is_no_conflict(tmp_path: Path) -> None:
    for day in (2, 1):
        at = datetime(2026, 1, day, tzinfo=UTC)
        append(
            tmp_path / f"{day}",
            "policies",
            [{"policy_sha256": "a", "registered_at": at, "policy_toml": "x = 1"}],
        )
    report = build([tmp_path / "2", tmp_path / "1"], tmp_path / "w.db")
    assert report.conflicts == ()
    assert ask(tmp_path / "w.db", "SELECT day(registered_at AT TIME ZONE 'UTC') FROM policies") == [(1,)]


def test_damaged_files_are_left_out_and_listed(lake: Path, tmp_path: Path) -> None:
    (good,) = (lake / "samples").glob("*.parquet")
    (lake / "samples" / "killed.parquet").write_bytes(good.read_bytes()[:-20])
    (lake / "samples" / "empty.parquet").touch()
    (lake / "samples" / "notes.txt").write_text("by hand")
    report = build([lake], tmp_path / "w.db")
    assert report.rows["samples"] == 240
    assert sorted(file.path.name for file in report.unreadable) == ["empty.parquet", "killed.parquet"]
    assert ask(tmp_path / "w.db", "SELECT file, status FROM lake_files WHERE status <> 'ok' ORDER BY 1") == [
        ("empty.parquet", "damaged"),
        ("killed.parquet", "damaged"),
    ]


def test_a_file_with_a_whole_footer_and_broken_pages_is_left_out(tmp_path: Path) -> None:
    append(tmp_path / "lake", "samples", [sample(n) for n in range(10)])
    bad = append(tmp_path / "lake", "samples", [sample(n) for n in range(100, 3000)])
    assert bad is not None
    data = bytearray(bad.read_bytes())
    data[4 : len(data) // 2] = b"\xff" * (len(data) // 2 - 4)
    bad.write_bytes(data)
    report = build([tmp_path / "lake"], tmp_path / "w.db")
    assert (report.rows["samples"], [file.path for file in report.unreadable]) == (10, [bad])


def test_a_changed_value_that_still_decodes_does_not_enter(tmp_path: Path) -> None:
    append(tmp_path / "lake", "samples", [sample(0)])
    bad = append(tmp_path / "lake", "samples", [sample(1, time_us=1234.5)])
    assert bad is not None
    data = bad.read_bytes()
    assert struct.pack("<d", 1234.5) in data
    bad.write_bytes(data.replace(struct.pack("<d", 1234.5), struct.pack("<d", 1.5)))
    report = build([tmp_path / "lake"], tmp_path / "w.db")
    assert [(file.path, file.status) for file in report.unreadable] == [(bad, "damaged")]
    assert ask(tmp_path / "w.db", "SELECT time_us FROM samples") == [(100.0,)]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_values_that_the_contract_forbids_keep_a_foreign_file_out(
    tmp_path: Path, value: float | None
) -> None:
    append(tmp_path / "lake", "samples", [sample(0)])
    table = cast("samples", [sample(1)])
    at = table.schema.get_field_index("time_us")
    table = table.set_column(at, pa.field("time_us", pa.float64()), pa.array([value], pa.float64()))
    pq.write_table(table, tmp_path / "lake" / "samples" / "other.parquet")
    report = build([tmp_path / "lake"], tmp_path / "w.db")
    (left_out,) = report.unreadable
    assert (left_out.status, report.rows["samples"]) == ("foreign", 1)
    assert "column 'time_us' has " in (left_out.reason or "")


def test_a_folder_named_like_a_partition_does_not_replace_a_column(tmp_path: Path) -> None:
    lake = tmp_path / "run_id=7" / "lake [128, 128] 'x'"
    append(lake, "samples", [sample(0, contestant="a/b=c (d) 'é")])
    build([lake], tmp_path / "w.db")
    assert ask(tmp_path / "w.db", "SELECT run_id, contestant FROM samples") == [
        (sample(0)["run_id"], "a/b=c (d) 'é")
    ]


def test_a_reader_of_the_old_database_keeps_it_while_it_is_replaced(
    lake: Path, tmp_path: Path, python: Start
) -> None:
    db = tmp_path / "w.db"
    build([lake], db)
    reader = python(
        "import duckdb\ncon = duckdb.connect('w.db', read_only=True)\nprint('open', flush=True)\ninput()\n"
        "print(con.execute('SELECT count(*) FROM samples').fetchone()[0])"
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "open\n"
    append(lake, "samples", [sample(0)])
    build([lake], db)
    out, err = reader.communicate("\n", timeout=60)
    assert (out, err) == ("240\n", "")
    assert ask(db, "SELECT count(*) FROM samples") == [(241,)]


def test_a_database_that_is_open_for_writing_names_its_holder(
    lake: Path, tmp_path: Path, python: Start
) -> None:
    db = tmp_path / "w.db"
    build([lake], db)
    before = db.read_bytes()
    holder = python("import duckdb\ncon = duckdb.connect('w.db')\nprint('open', flush=True)\ninput()")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    with pytest.raises(LockedError, match=rf"w\.db is open for writing in .*{holder.pid}"):
        build([lake], db)
    holder.communicate("\n", timeout=60)
    assert db.read_bytes() == before
    build([lake], db)


def test_two_builds_at_once_leave_one_whole_database(lake: Path, tmp_path: Path, python: Start) -> None:
    code = (
        "from pathlib import Path\nfrom warehouse.build import build\n"
        "for _ in range(2):\n    build([Path(sys.argv[1])], Path('w.db'))"
    )
    for process in [python(code, lake), python(code, lake)]:
        _, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
    assert ask(tmp_path / "w.db", "SELECT count(*) FROM samples") == [(240,)]
    assert [path.name for path in tmp_path.glob(".w.db*")] == []


def test_a_build_that_breaks_leaves_the_old_database_and_no_other_file(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = tmp_path / "w.db"
    build([lake], db)
    before = db.read_bytes()
    (tmp_path / "queries" / "views").mkdir(parents=True)
    (tmp_path / "queries" / "views" / "10_broken.sql").write_text("CREATE VIEW v AS SELECT * FROM nowhere;")
    monkeypatch.setattr(module, "resources", lambda _: tmp_path / "queries")
    with pytest.raises(BuildError, match=r"queries/views/10_broken\.sql cannot be loaded: .*nowhere"):
        build([lake], db)
    assert db.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "queries", "w.db"]


def test_what_a_killed_build_left_is_removed_and_a_living_one_is_not(lake: Path, tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / f".w.db.{dead.pid}-00000000.building").touch()
    (tmp_path / f".w.db.{dead.pid}-00000000.building.wal").touch()
    living = tmp_path / ".w.db.1-00000000.building"
    living.touch()
    build([lake], tmp_path / "w.db")
    assert list(tmp_path.glob(".w.db*")) == [living]


@pytest.mark.parametrize("size", [1_000, 20_000, 300_000, 2_000_000])
def test_a_disk_that_is_full_at_any_stage_is_a_sentence_and_leaves_nothing(
    lake: Path, tmp_path: Path, python: Start, size: int
) -> None:
    process = python(
        """
import resource
from pathlib import Path
from warehouse.build import build
from warehouse.errors import WarehouseError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
try:
    build([Path("lake")], Path("w.db"))
except WarehouseError as error:
    print(error)
""",
        size,
    )
    out, err = process.communicate(timeout=60)
    assert err == ""
    assert out.startswith("cannot write w.db: ")
    assert out.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]


@pytest.mark.parametrize(
    ("db", "says"),
    [
        ("nowhere/w.db", "nowhere is no folder; create it"),
        ("folder", "folder is a folder; name a file"),
        ("notes.txt", "notes.txt is not a DuckDB database and is left alone"),
    ],
)
def test_a_place_that_is_none_for_a_database_is_a_sentence(
    lake: Path, tmp_path: Path, db: str, says: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("not a database at all")
    with pytest.raises(StorageError, match=says):
        build([lake], tmp_path / db)
    assert (tmp_path / "notes.txt").read_text() == "not a database at all"


def test_a_database_of_somebody_else_is_left_alone(lake: Path, tmp_path: Path) -> None:
    db = tmp_path / "mine.db"
    with duckdb.connect(str(db)) as con:
        con.execute("CREATE TABLE notes AS SELECT 7 AS x")
    with pytest.raises(StorageError, match=r"is a database of something else \(notes\) and is left alone"):
        build([lake], db)
    assert ask(db, "FROM notes") == [(7,)]
    with duckdb.connect(str(db)) as con:
        con.execute("DROP TABLE notes")
    build([lake], db)  # an empty one holds nothing to lose
    assert ask(db, "SELECT count(*) FROM samples") == [(240,)]


def test_a_path_that_is_no_text_is_a_sentence(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is no text in this locale"):
        build([lake], tmp_path / "\udcff.db")
    (lake / "samples" / "\udcff.parquet").touch()
    build([lake], tmp_path / "w.db")
    assert ask(tmp_path / "w.db", "SELECT file, reason FROM lake_files WHERE status <> 'ok'") == [
        ("\\udcff.parquet", "its name is no text in this locale")
    ]


def test_a_lake_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NoLakeError):
        build([tmp_path / "nowhere"], tmp_path / "w.db")


def test_a_damaged_database_is_replaced(lake: Path, tmp_path: Path) -> None:
    db = tmp_path / "w.db"
    build([lake], db)
    db.write_bytes(db.read_bytes()[:5000])
    build([lake], db)
    assert ask(db, "SELECT count(*) FROM samples") == [(240,)]


def test_a_policy_that_is_no_toml_has_no_values_and_stops_nothing(tmp_path: Path) -> None:
    write(tmp_path / "lake", Race(policy="x = = 1", run_id=run_id(1)))
    build([tmp_path / "lake"], tmp_path / "w.db")
    assert ask(tmp_path / "w.db", "SELECT count(*) FROM policy_values") == [(0,)]
