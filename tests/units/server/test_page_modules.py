"""Which modules a screen needs is read from the modules themselves."""

from hooklane.server.page_modules import imports_of, modules_of

FILES = {
    "main.js": b'import { a } from "./a.js";\nregister(\n  { path: "/lanes", load: () => import("./lanes.js") },\n'
    b'  { path: "/events/:id", under: "/events", load: () => import("./story.js") },\n);\n',
    "a.js": b'import {\n  one,\n} from "./vendor/kit.js";\nexport const text = "import x from \\"./none.js\\"";\n',
    "lanes.js": b'import { a } from "./a.js";\nimport { b } from "./b.js";\n',
    "b.js": b'export { c } from "./vendor/core.js";\nimport { late } from "./lanes.js"; // a circle\n',
    "story.js": b'const later = () => import("./heavy.js");\n',
    "heavy.js": b"",
    "vendor/kit.js": b'import{n as t}from"./core.js";import{x}from"./x.js";export{t};',
    "vendor/core.js": b"",
    "vendor/x.js": b"",
}


def test_a_screen_names_all_that_it_imports_each_once_and_what_others_import_first():
    assert modules_of(FILES, "/lanes") == [
        "vendor/core.js",
        "vendor/x.js",
        "vendor/kit.js",
        "a.js",
        "b.js",
        "lanes.js",
    ]


def test_what_is_imported_later_is_not_named_and_an_address_without_a_screen_has_the_frame_only():
    assert "heavy.js" not in modules_of(FILES, "/events/{id}")
    assert modules_of(FILES, "/events/{id}")[-1] == "story.js"
    assert modules_of(FILES, "/events/{id}", "heavy.js")[-2:] == ["story.js", "heavy.js"]
    assert modules_of(FILES, "/portal") == ["vendor/core.js", "vendor/x.js", "vendor/kit.js", "a.js"]


def test_a_module_names_its_neighbours_by_where_it_stands():
    assert imports_of("vendor/kit.js", FILES["vendor/kit.js"]) == ["vendor/core.js", "vendor/x.js"]
