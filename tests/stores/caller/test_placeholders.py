import pytest

from hooklane.store.caller.placeholders import Style, translate

SQL = """
SELECT ':no', "a:no", $$ :no $$, 5 % 2 -- :no 100 %
FROM t /* :no */ WHERE a = :one::text AND b = ANY(:two::bigint[]) AND c = :one AND d LIKE 'x%'
"""


@pytest.mark.parametrize(
    ("style", "placed", "names"),
    [
        (Style.QMARK, ["?", "?", "?"], ("one", "two", "one")),
        (Style.FORMAT, ["%s", "%s", "%s"], ("one", "two", "one")),
        (Style.BINARY, ["%b", "%b", "%b"], ("one", "two", "one")),
        (Style.DOLLAR, ["$1", "$2", "$1"], ("one", "two")),
    ],
)
def test_names_outside_of_quotes_comments_and_casts_are_parameters(
    style: Style, placed: list[str], names: tuple[str, ...]
) -> None:
    sql, found = translate(SQL, style)

    a, b, c = placed
    assert names == found
    assert f"a = {a}::text AND b = ANY({b}::bigint[]) AND c = {c} AND" in sql
    assert sql.count(":no") == 5


def test_a_percent_sign_is_doubled_only_where_the_driver_formats() -> None:
    assert "5 % 2" in translate(SQL, Style.DOLLAR)[0]
    assert "LIKE 'x%'" in translate(SQL, Style.QMARK)[0]
    assert "5 %% 2 -- :no 100 %%" in translate(SQL, Style.FORMAT)[0]
    assert "LIKE 'x%%'" in translate(SQL, Style.BINARY)[0]
