"""An allow-list for SQL: what both CockroachDB and PostgreSQL understand in the same way.

Works on PostgreSQL's own syntax tree (pglast). A construct that is not listed is refused, so that a
new one is looked up in the guide of portable SQL before it is added here. The tree cannot show
everything: types of expressions, missing overloads and planner refusals need a CockroachDB server.

`lint` returns what is wrong; an empty list is a statement that may be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from pglast import ast, enums, keywords, parse_sql
from pglast.parser import ParseError

Node = Any  # pglast types its nodes as "this or None" throughout, which says nothing here
Keys = dict[str, list[tuple[str, ...]]]

EXPRESSIONS: Final = frozenset(
    {
        *("A_ArrayExpr", "A_Const", "A_Expr", "BoolExpr", "Boolean", "CaseExpr", "CaseWhen"),
        *("CoalesceExpr", "ColumnRef", "Float", "FuncCall", "Integer", "MinMaxExpr", "NullTest"),
        *("ParamRef", "RowExpr", "String", "SubLink", "TypeCast", "TypeName"),
    }
)
QUERIES: Final = frozenset(
    {
        *("Alias", "CommonTableExpr", "DeleteStmt", "IndexElem", "InferClause", "InsertStmt"),
        *("JoinExpr", "OnConflictClause", "RangeFunction", "RangeSubselect", "RangeVar"),
        *("RawStmt", "ResTarget", "ReturningClause", "SelectStmt", "SortBy", "TransactionStmt"),
        *("VariableShowStmt", "WindowDef", "WithClause", "DefElem"),
    }
)
SCHEMA: Final = frozenset(
    {"ColumnDef", "Constraint", "CreateStmt", "DropStmt", "IndexStmt", "ViewStmt"}
    | {"AlterTableStmt", "AlterTableCmd"}
)

TYPES: Final = frozenset(
    {"int2", "int4", "int8", "text", "bytea", "uuid", "bool", "timestamptz", "jsonb", "numeric"}
    | {"interval", "float8"}
)
ARRAY_TYPES: Final = frozenset(
    {"int2", "int4", "int8", "text", "bytea", "uuid", "timestamptz", "bool"}
)
FUNCTIONS: Final = frozenset(
    {
        *("cardinality", "clock_timestamp", "concat", "count", "div", "gen_random_uuid"),
        *("generate_series", "length", "max", "min", "pg_sleep", "set_config", "sum"),
        *("statement_timestamp", "string_agg", "substring", "unnest", "version"),
    }
)
WINDOWS: Final = frozenset({"sum"})
FRAME_OF_ITS_OWN: Final = 1  # FRAMEOPTION_NONDEFAULT of PostgreSQL's parser
# `/` between integers is a decimal on one database and truncates on the other.
OPERATORS: Final = frozenset({"=", "<>", "<", ">", "<=", ">=", "+", "-", "*"}) | {"@>", "->", "->>"}
EXPRESSION_KINDS: Final = frozenset(
    {
        enums.A_Expr_Kind.AEXPR_OP,
        enums.A_Expr_Kind.AEXPR_OP_ANY,
        enums.A_Expr_Kind.AEXPR_BETWEEN,
    }
)
CONSTRAINTS: Final = frozenset(
    {
        enums.ConstrType.CONSTR_NOTNULL,
        enums.ConstrType.CONSTR_PRIMARY,
        enums.ConstrType.CONSTR_CHECK,
    }
)
NAMES_REFUSED: Final = frozenset({"family", "none", "tracing"}) | keywords.RESERVED_KEYWORDS

# Tables whose rows belong to no shard.
UNSHARDED: Final = frozenset(
    {"namespaces", "nodes", "token_keys", "migration_lock", "batch_operations", "deployments"}
    | {"queue_limits"}
)


def lint(sql: str, keys: Keys | None = None) -> list[str]:
    """Findings of a statement of the engine. `keys`: the declared keys of each table, for ORDER
    BY.
    """
    return _findings(sql, EXPRESSIONS | QUERIES, [*_RULES, _orders_by(keys or {})])


def lint_migration(sql: str) -> list[str]:
    """Findings of a migration step: one statement that can be repeated."""
    return _findings(sql, EXPRESSIONS | QUERIES | SCHEMA, [*_RULES, *_MIGRATION_RULES], named=True)


def _findings(
    sql: str, allowed: frozenset[str], rules: list[Rule], *, named: bool = False
) -> list[str]:
    # Migration steps have SQLAlchemy's :named parameters; pglast knows $1.
    text = sql.replace(":number_of_shards", "$1") if named else sql
    try:
        statements = parse_sql(text)
    except ParseError as error:
        return [f"does not parse: {error}"]
    if len(statements) != 1:
        return [f"{len(statements)} statements in one text"]
    statement = statements[0].stmt
    found = [
        f"{type(node).__name__} is not allowed"
        for node, _ in walk(statement)
        if type(node).__name__ not in allowed
    ]
    for rule in rules:
        found += rule(statement)
    return found


def walk(node: Node, parents: tuple[Node, ...] = ()) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Every node below, with the nodes above it, outermost first."""
    yield node, parents
    below = (*parents, node)
    for name in node.__slots__:
        for child in _flat(getattr(node, name, None)):
            yield from walk(child, below)


def _flat(value: object) -> Iterator[Node]:
    """The nodes in an attribute: one, or a list of them, or of lists (VALUES, functions in
    FROM).
    """
    if isinstance(value, tuple):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, ast.Node):
        yield value


def of_type(statement: Node, type_: str) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    return ((node, parents) for node, parents in walk(statement) if _is(node, type_))


def _is(node: Node, *types: str) -> bool:
    return type(node).__name__ in types


Rule = Callable[[Node], Iterator[str]]


def _parameters(statement: Node) -> Iterator[str]:
    """Each placeholder stands directly under a cast, one type for each number, no number left
    out.
    """
    types: dict[int, str] = {}
    for node, parents in of_type(statement, "ParamRef"):
        cast = parents[-1]
        if not _is(cast, "TypeCast"):
            yield f"${node.number} has no cast"
            continue
        type_ = _type_name(cast.typeName)
        if types.setdefault(node.number, type_) != type_:
            yield f"${node.number} is {types[node.number]} and {type_}"
    if types and sorted(types) != list(range(1, max(types) + 1)):
        yield f"placeholders are not numbered from 1 on: {sorted(types)}"


def _type_names(statement: Node) -> Iterator[str]:
    for node, _ in of_type(statement, "TypeName"):
        name = node.names[-1].sval
        dimensions = len(node.arrayBounds or ())
        if name not in (ARRAY_TYPES if dimensions else TYPES) or dimensions > 1 or node.typmods:
            yield f"the type {_type_name(node)} is not allowed"


def _functions(statement: Node) -> Iterator[str]:
    for node, _ in of_type(statement, "FuncCall"):
        name = node.funcname[-1].sval
        if name not in FUNCTIONS:
            yield f"the function {name} is not allowed"
        plain = node.over is None or (name in WINDOWS and _in_order(node.over))
        if node.agg_order or node.agg_filter or not plain or node.func_variadic:
            yield f"{name} with order, filter, window or variadic"


def _in_order(window: Node) -> bool:
    """The rows before each: neither parts, nor a frame of its own."""
    own_frame = window.frameOptions & FRAME_OF_ITS_OWN
    return not (window.name or window.refname or window.partitionClause or own_frame)


def _operators(statement: Node) -> Iterator[str]:
    for node, _ in of_type(statement, "A_Expr"):
        name = node.name[-1].sval
        if node.kind not in EXPRESSION_KINDS:
            yield f"{node.kind.name} is not allowed"
        elif node.kind != enums.A_Expr_Kind.AEXPR_BETWEEN and name not in OPERATORS:
            yield f"the operator {name} is not allowed"


def _columns_are_listed(statement: Node) -> Iterator[str]:
    for node, _ in of_type(statement, "ColumnRef"):
        if any(_is(field, "A_Star") for field in node.fields):
            yield "a star instead of columns"
    for node, _ in of_type(statement, "InsertStmt"):
        if not node.cols:
            yield "an INSERT without its columns"


def _pages_by_key(statement: Node) -> Iterator[str]:
    for node, _ in of_type(statement, "SelectStmt"):
        if node.limitOffset is not None and not _is_one(node.limitCount):
            yield "OFFSET: page by key"
        if node.limitCount is not None and not node.sortClause and not _is_one(node.limitCount):
            yield "LIMIT without ORDER BY"
        if node.lockingClause:
            yield "a row lock: correctness stands on versions"
        if any(not _is(item, "ColumnRef") for item in node.groupClause or ()):
            yield "GROUP BY something that is no column"
        if node.havingClause or node.distinctClause or node.windowClause:
            yield "grouping in a statement of the engine"
        if node.op != enums.SetOperation.SETOP_NONE:
            yield "a set operation"


def _is_one(limit: Node) -> bool:
    return _is(limit, "A_Const") and limit.val.ival == 1


def _changes(statement: Node) -> Iterator[str]:
    """A table is changed once in a statement, and only at its top or in a CTE there."""
    tables: list[str] = []
    for node, parents in walk(statement):
        if _is(node, "InsertStmt", "DeleteStmt", "UpdateStmt"):
            tables.append(node.relation.relname)
            outer = [parent for parent in parents if _is_query(parent)]
            if outer and outer != [statement]:
                yield f"{node.relation.relname} is changed below the top"
    for table in sorted({table for table in tables if tables.count(table) > 1}):
        yield f"{table} is changed twice"


def _is_query(node: Node) -> bool:
    return _is(node, "SelectStmt", "InsertStmt", "DeleteStmt", "UpdateStmt")


def _upserts(statement: Node) -> Iterator[str]:
    """A conflict names plain columns; partial and expression arbiters are not portable."""
    for node, _ in of_type(statement, "OnConflictClause"):
        if node.infer is None or node.infer.conname or node.infer.whereClause:
            yield "ON CONFLICT without plain columns"
        elif any(element.name is None for element in node.infer.indexElems):
            yield "ON CONFLICT on an expression"


def _deletes_of_one_shard(statement: Node) -> Iterator[str]:
    """The first condition of a DELETE is its shard: the key begins with it."""
    for node, _ in of_type(statement, "DeleteStmt"):
        if node.relation.relname in UNSHARDED:
            if node.whereClause is None:
                yield "a DELETE of everything"
            continue
        conditions = _conjuncts(node.whereClause)
        first: Node = conditions[0] if conditions else None
        if not _is(first, "A_Expr") or _column(first.lexpr) != "shard_id":
            yield f"the first condition of the DELETE from {node.relation.relname} is not its shard"


def _conjuncts(where: Node) -> list[Node]:
    if _is(where, "BoolExpr") and where.boolop == enums.BoolExprType.AND_EXPR:
        return list(where.args)
    return [] if where is None else [where]


def _names(statement: Node) -> Iterator[str]:
    for node, _ in walk(statement):
        for name in _names_given(node):
            if name in NAMES_REFUSED:
                yield f"the name {name} is a keyword somewhere"


def _names_given(node: Node) -> Iterator[str]:
    if _is(node, "Alias"):
        yield node.aliasname
        yield from (column.sval for column in node.colnames or ())
    elif _is(node, "ResTarget") and node.name:
        yield node.name
    elif _is(node, "CommonTableExpr"):
        yield node.ctename
    elif _is(node, "ColumnDef"):
        yield node.colname
    elif _is(node, "RangeVar"):
        yield node.relname


def _nulls_sort_by_default(statement: Node) -> Iterator[str]:
    for node, _ in of_type(statement, "SortBy"):
        if node.sortby_nulls != enums.SortByNulls.SORTBY_NULLS_DEFAULT:
            yield "NULLS FIRST or LAST: sort by columns that are never null"
    for node, _ in of_type(statement, "IndexElem"):
        if node.opclass or node.collation or node.expr is not None:
            yield "an index on an expression, or with operator class or collation"
        if node.nulls_ordering != enums.SortByNulls.SORTBY_NULLS_DEFAULT:
            yield "an index with a place for nulls"


def _transactions(statement: Node) -> Iterator[str]:
    for node, _ in of_type(statement, "TransactionStmt"):
        kinds = enums.TransactionStmtKind
        if node.kind not in (kinds.TRANS_STMT_BEGIN, kinds.TRANS_STMT_COMMIT) or node.chain:
            yield f"{node.kind.name} is not allowed"


def _orders_by(keys: Keys) -> Rule:
    """ORDER BY follows a declared key, in one direction."""
    declared = [key for of_table in keys.values() for key in of_table]

    def rule(statement: Node) -> Iterator[str]:
        for node, _ in of_type(statement, "SelectStmt"):
            sort = node.sortClause or ()
            columns = tuple(_column(item.node) for item in sort)
            if sort and not any(_runs_in(columns, key) for key in declared):
                yield f"ORDER BY {columns} follows no key"
            if len({_descending(item) for item in sort}) > 1:
                yield f"ORDER BY {columns} in two directions"

    return rule


def _descending(item: Node) -> bool:
    return bool(item.sortby_dir == enums.SortByDir.SORTBY_DESC)


def _runs_in(columns: tuple[str | None, ...], key: tuple[str, ...]) -> bool:
    """Columns before the run are fixed by equality; the plan tests see to that."""
    return any(key[at : at + len(columns)] == columns for at in range(len(key) - len(columns) + 1))


def _column(node: Node) -> str | None:
    return node.fields[-1].sval if _is(node, "ColumnRef") else None


def _type_name(node: Node) -> str:
    return str(node.names[-1].sval) + "[]" * len(node.arrayBounds or ())


_RULES: Final[list[Rule]] = [
    _parameters,
    _type_names,
    _functions,
    _operators,
    _columns_are_listed,
    _pages_by_key,
    _changes,
    _upserts,
    _deletes_of_one_shard,
    _names,
    _nulls_sort_by_default,
    _transactions,
]


def _repeatable(statement: Node) -> Iterator[str]:
    if _is(statement, "CreateStmt", "IndexStmt"):
        if not statement.if_not_exists:
            yield "without IF NOT EXISTS"
    elif _is(statement, "InsertStmt"):
        conflict = statement.onConflictClause
        if conflict is None or conflict.action != enums.OnConflictAction.ONCONFLICT_NOTHING:
            yield "an INSERT that cannot be repeated"
    elif _is(statement, "ViewStmt"):
        if not statement.replace or statement.options or statement.withCheckOption.value:
            yield "a view without OR REPLACE, or with options"
    elif _is(statement, "DropStmt"):
        yield from _drops_an_index(statement)
    elif _is(statement, "AlterTableStmt"):
        yield from _checks_only(statement)
    else:
        yield f"{type(statement).__name__} is no migration step"


def _drops_an_index(statement: Node) -> Iterator[str]:
    if statement.removeType != enums.ObjectType.OBJECT_INDEX:
        yield "dropped, and no index"
    if not statement.missing_ok or statement.concurrent:
        yield "an index dropped without IF EXISTS, or CONCURRENTLY"
    if statement.behavior != enums.DropBehavior.DROP_RESTRICT:
        yield "an index dropped with CASCADE"


def _checks_only(statement: Node) -> Iterator[str]:
    """Of a table that is there, a check may go, come (looking at no row yet) and be validated; a column may come
    that the version before need not know: nullable, without a default.

    One that comes is dropped by a step before it in the same revision: so the revision can be repeated.
    """
    if len(statement.cmds) != 1 or statement.missing_ok:
        yield "more than one change, or of a table that may not be there"
    for command in statement.cmds:
        match command.subtype:
            case enums.AlterTableType.AT_DropConstraint:
                if not command.missing_ok or command.behavior != enums.DropBehavior.DROP_RESTRICT:
                    yield "a constraint dropped without IF EXISTS, or with CASCADE"
            case enums.AlterTableType.AT_AddConstraint:
                check = command.def_.contype == enums.ConstrType.CONSTR_CHECK
                if not check or not command.def_.skip_validation:
                    yield "a constraint added that is no check, or is not NOT VALID"
            case enums.AlterTableType.AT_ValidateConstraint:
                pass
            case enums.AlterTableType.AT_AddColumn:
                if not command.missing_ok or command.def_.constraints:
                    yield "a column added without IF NOT EXISTS, or one that is not nullable"
            case other:
                yield f"{other.name} is no migration step"


def _schema(statement: Node) -> Iterator[str]:
    """Portable tables: a named primary key, named checks, nothing else."""
    for node, _ in of_type(statement, "Constraint"):
        if node.contype not in CONSTRAINTS or node.deferrable:
            yield f"{node.contype.name} is not allowed"
        if node.contype != enums.ConstrType.CONSTR_NOTNULL and not node.conname:
            yield "a constraint without a name"
    for node, _ in of_type(statement, "CreateStmt"):
        if node.partspec or node.inhRelations or node.options or node.tablespacename:
            yield "a table with partitions, parents or options"
        if not any(
            _is(item, "Constraint") and item.contype == enums.ConstrType.CONSTR_PRIMARY
            for item in node.tableElts
        ):
            yield "a table without a primary key"
    for node, _ in of_type(statement, "IndexStmt"):
        if (
            node.concurrent
            or node.nulls_not_distinct
            or (node.unique and node.whereClause is not None)
            or node.accessMethod not in ("btree", "gin")
        ):
            yield "an index that only PostgreSQL can make"


_MIGRATION_RULES: Final[list[Rule]] = [_repeatable, _schema]


def declared_keys(steps: Iterable[str]) -> Keys:
    """Primary keys and indexes of the tables that migration steps make."""
    keys: Keys = {}
    for sql in steps:
        statement: Node = parse_sql(sql.replace(":number_of_shards", "$1"))[0].stmt
        if _is(statement, "CreateStmt"):
            for item in statement.tableElts:
                if _is(item, "Constraint") and item.keys:
                    columns = tuple(key.sval for key in item.keys)
                    keys.setdefault(statement.relation.relname, []).append(columns)
        elif _is(statement, "IndexStmt"):
            columns = tuple(element.name for element in statement.indexParams)
            keys.setdefault(statement.relation.relname, []).append(columns)
    return keys
