"""The linter refuses what it should: each rule is seen to bite."""

from __future__ import annotations

import pytest
from tests.sql_lint.linter import Keys, declared_keys, lint, lint_migration

KEYS: Keys = {"tasks": [("shard_id", "queue_no", "task_id")]}

GOOD = [
    "select t.task_id from tasks as t where t.shard_id = $1::int4 order by t.task_id limit 5",
    "insert into tasks as t (shard_id) values ($1::int4) on conflict (shard_id) do nothing",
    "delete from tasks as t where t.shard_id = $1::int4 and t.task_id < $2::int8",
    "with d as (delete from tasks as t where t.shard_id = any($1::int4[]) returning t.state) "
    "select count(*) from d",
    "begin isolation level serializable read only",
    "commit",
    "show transaction_isolation",
    "select t.a, count(*) from tasks as t group by t.a",
    "select t.task_id from tasks as t order by t.task_id limit 1 offset $1::int8",
    "select sum(t.a) over (order by t.task_id) from tasks as t",
    "select (t.a -> 'k') ->> $1::text from tasks as t where t.a @> $2::jsonb",
]

BAD = {
    "update tasks set state = 9 where shard_id = 1": "UpdateStmt is not allowed",
    "with u as (update tasks set state = 9 where shard_id = 1 returning state) "
    "select u.state from u": "UpdateStmt is not allowed",
    "merge into tasks as t using tasks as s on true when matched then do nothing": (
        "MergeStmt is not allowed"
    ),
    "listen work": "ListenStmt is not allowed",
    "lock table tasks": "LockStmt is not allowed",
    "copy tasks from stdin": "CopyStmt is not allowed",
    "savepoint a": "TRANS_STMT_SAVEPOINT is not allowed",
    "rollback": "TRANS_STMT_ROLLBACK is not allowed",
    "selec 1": "does not parse",
    "select 1; select 2": "2 statements in one text",
    "select t.task_id from tasks as t where t.shard_id = $1": "$1 has no cast",
    "select $1::int4, $1::int8": "$1 is int4 and int8",
    "select $2::int4": "placeholders are not numbered from 1 on",
    "select $1::int": None,  # the parser spells it int4: a type of PostgreSQL's own making
    "select $1::float4": "the type float4 is not allowed",
    "select $1::jsonb[]": "the type jsonb[] is not allowed",
    "select $1::text[][]": "the type text[][] is not allowed",
    "select pg_advisory_lock(1)": "the function pg_advisory_lock is not allowed",
    "select random()": "the function random is not allowed",
    "select now()": "the function now is not allowed",
    "select count(*) over () from tasks as t": "count with order, filter, window or variadic",
    "select sum(t.a) over (partition by t.b order by t.task_id) from tasks as t": "sum with order",
    "select sum(t.a) over (order by t.task_id rows 5 preceding) from tasks as t": "sum with order",
    "select string_agg(t.a, ' ' order by t.a) from tasks as t": "string_agg with order",
    "select t.a / t.b from tasks as t": "the operator / is not allowed",
    "select t.a ~ 'x' from tasks as t": "the operator ~ is not allowed",
    "select t.a from tasks as t where t.a like 'x'": "AEXPR_LIKE is not allowed",
    "select t.a is distinct from t.b from tasks as t": "AEXPR_DISTINCT is not allowed",
    "select * from tasks": "a star instead of columns",
    "select t.* from tasks as t": "a star instead of columns",
    "insert into tasks values (1) on conflict (shard_id) do nothing": (
        "an INSERT without its columns"
    ),
    "select t.task_id from tasks as t order by t.task_id limit 5 offset 5": "OFFSET",
    "select t.task_id from tasks as t limit 5": "LIMIT without ORDER BY",
    "select t.task_id from tasks as t for update": "LockingClause is not allowed",
    "select t.a from tasks as t for update skip locked": "a row lock",
    "select t.a, count(*) from tasks as t group by t.a having count(*) > 1": "grouping",
    "select count(*) from tasks as t group by t.a + 1": "GROUP BY something",
    "select count(*) from tasks as t group by rollup (t.a)": "GROUP BY something",
    "select t.a ? 'x' from tasks as t": "the operator ? is not allowed",
    "select 1 union all select 2": "a set operation",
    "with a as (insert into tasks as t (shard_id) values (1) returning t.shard_id), "
    "b as (delete from tasks as t where t.shard_id = 1) select a.shard_id from a": (
        "tasks is changed twice"
    ),
    "with a as (with b as (delete from tasks as t where t.shard_id = 1 returning t.state) "
    "select b.state from b) select a.state from a": "tasks is changed below the top",
    "insert into tasks as t (shard_id) values (1) on conflict do nothing": (
        "ON CONFLICT without plain columns"
    ),
    "insert into tasks as t (shard_id) values (1) on conflict on constraint k do nothing": (
        "ON CONFLICT without plain columns"
    ),
    "insert into tasks as t (shard_id) values (1) on conflict (lower(a)) do nothing": (
        "ON CONFLICT on an expression"
    ),
    "delete from tasks as t where t.task_id = 1": "the first condition",
    "delete from tasks as t": "the first condition",
    "delete from tasks as t where t.shard_id = 1 or t.task_id = 1": "the first condition",
    "delete from nodes": "a DELETE of everything",
    "select t.a as family from tasks as t": "the name family is a keyword",
    "with none as (select 1 as a) select none.a from none": "the name none is a keyword",
    "select t.task_id from tasks as t order by t.task_id nulls first": "NULLS FIRST or LAST",
    "select t.state from tasks as t order by t.state": "ORDER BY ('state',) follows no key",
    "select t.a from tasks as t order by t.shard_id, t.task_id": "follows no key",
    "select t.a from tasks as t order by t.queue_no, t.task_id desc": "in two directions",
    "select t.a from tasks as t tablesample system (1)": "RangeTableSample is not allowed",
    "select t.a from tasks as t where t.a = any(array[1, 2]) and grouping(t.a) = 1": (
        "GroupingFunc is not allowed"
    ),
    "create table if not exists t (a int4)": "CreateStmt is not allowed",
}

GOOD_STEPS = [
    "create table if not exists t (a int4 not null, constraint t_pk primary key (a))",
    "create unique index if not exists t_b on t (b)",
    "insert into t (a) values (1) on conflict (a) do nothing",
    "create index if not exists t_a on t using gin (a) where a <> '{}'::jsonb",
    "create or replace view t_v as select t.a from t",
    "drop index if exists t_a",
    "alter table t drop constraint if exists t_a",
    "alter table t add constraint t_a check (a between 1 and 8) not valid",
    "alter table t validate constraint t_a",
    "alter table t add column if not exists b jsonb",
]

BAD_STEPS = {
    "create table t (a int4 not null, constraint t_pk primary key (a))": "without IF NOT EXISTS",
    "create table if not exists t (a int4 not null)": "a table without a primary key",
    "create table if not exists t (a serial, constraint t_pk primary key (a))": (
        "the type serial is not allowed"
    ),
    "create table if not exists t (a int4, primary key (a))": "a constraint without a name",
    "create table if not exists t (a int4, constraint t_pk primary key (a), "
    "constraint t_a unique (a))": "CONSTR_UNIQUE is not allowed",
    "create table if not exists t (a int4 references s (a), constraint t_pk primary key (a))": (
        "CONSTR_FOREIGN is not allowed"
    ),
    "create table if not exists t (a int4, constraint t_pk primary key (a)) "
    "with (fillfactor = 10)": "a table with partitions, parents or options",
    "create table if not exists t (a varchar(3), constraint t_pk primary key (a))": (
        "the type varchar is not allowed"
    ),
    "create index t_a on t (a)": "without IF NOT EXISTS",
    "create index concurrently if not exists t_a on t (a)": "only PostgreSQL can make",
    "create index if not exists t_a on t using brin (a)": "only PostgreSQL can make",
    "create index if not exists t_a on t using gin (a jsonb_path_ops)": "operator class",
    "create view t_v as select t.a from t": "a view without OR REPLACE",
    "create or replace view t_v as select t.* from t": "a star",
    "create or replace view t_v as select t.a from t with check option": "with options",
    "create index if not exists t_a on t (lower(a))": "an index on an expression",
    "create index if not exists t_a on t (a nulls first)": "an index with a place for nulls",
    "create index if not exists t_a on t (a text_pattern_ops)": "operator class",
    "insert into t (a) values (1)": "an INSERT that cannot be repeated",
    "drop table t": "dropped, and no index",
    "drop index t_a": "an index dropped without IF EXISTS",
    "drop index if exists t_a cascade": "an index dropped with CASCADE",
    "alter table t add column b int4": "a column added without IF NOT EXISTS",
    "alter table t add column if not exists b int4 not null": "that is not nullable",
    "alter table t add column if not exists b int4 default 0": "that is not nullable",
    "alter table t drop column if exists b": "AT_DropColumn is no migration step",
    "alter table t drop constraint t_a": "without IF EXISTS",
    "alter table t drop constraint if exists t_a cascade": "with CASCADE",
    "alter table t add constraint t_a check (a between 1 and 8)": "not NOT VALID",
    "alter table t add constraint t_a unique (a)": "that is no check",
    "alter table t add check (a between 1 and 8) not valid": "a constraint without a name",
    "alter table t drop constraint if exists a, drop constraint if exists b": "more than one change",
    "do $$ begin end $$": "DoStmt is no migration step",
}


@pytest.mark.parametrize("sql", GOOD)
def test_portable_statements_pass(sql: str) -> None:
    assert lint(sql, KEYS) == []


@pytest.mark.parametrize("sql", BAD)
def test_other_statements_are_refused(sql: str) -> None:
    wanted = BAD[sql]

    found = lint(sql, KEYS)

    assert found == [] if wanted is None else any(wanted in finding for finding in found), found


@pytest.mark.parametrize("sql", GOOD_STEPS)
def test_portable_steps_pass(sql: str) -> None:
    assert lint_migration(sql) == []


@pytest.mark.parametrize("sql", BAD_STEPS)
def test_other_steps_are_refused(sql: str) -> None:
    found = lint_migration(sql)

    assert any(BAD_STEPS[sql] in finding for finding in found), found


def test_keys_are_read_from_the_steps() -> None:
    steps = ["create index if not exists t_b on t (b, c)", GOOD_STEPS[0]]

    assert declared_keys(steps) == {"t": [("b", "c"), ("a",)]}
