"""The modules of a page, by import statements."""

from hutong.console.modules import PageModules

TEXTS = {
    "app.js": 'import { h } from "./core/dom.js";\nconst pages = [\n'
    '  { path: "/", load: () => import("./views/home.js") },\n'
    '  { path: "/topics/:name", load: () => import("./views/topic.js"), nav: {} },\n];\n',
    "core/dom.js": "export const h = 1;\n",
    "core/table.js": 'import { h } from "./dom.js";\nimport "./rows.js";\n',
    "core/rows.js": 'export * from "../core/dom.js";\n// import { x } from "./nothing.js";\n',
    "views/home.js": "export const view = {};\n",
    "views/topic.js": 'import { table } from "../core/table.js";\nimport x from "other";\n',
    "views/part.js": 'import { b } from "./topic.js";\nimport { gone } from "./gone.js";\n',
}


def test_a_page_needs_its_module_and_all_that_it_imports() -> None:
    modules = PageModules(TEXTS)
    assert modules.of_path("/") == ["app.js", "views/home.js", "core/dom.js"]
    assert modules.of_path("/topics/a") == ["app.js", "views/topic.js", "core/dom.js", "core/table.js", "core/rows.js"]


def test_a_path_of_no_page_needs_the_entry_alone() -> None:
    modules = PageModules(TEXTS)
    for path in ("/topics", "/topics/a/b", "/nothing", "//", "/topics//"):
        assert "views/topic.js" not in modules.of_path(path)
        assert modules.of_path(path)[0] == "app.js"


def test_circles_and_missing_modules_are_passed_over() -> None:
    texts = {**TEXTS, "views/topic.js": 'import "./part.js";\n'}
    assert PageModules(texts).of_path("/topics/a")[:3] == ["app.js", "views/topic.js", "core/dom.js"]
    assert PageModules(texts).of_path("/topics/a")[3:] == ["views/part.js"]
