"""The documentation as a site, by Sphinx, MyST and the theme Furo: `./dev docs`.

The pages are README and docs/*.md as they stand in the tree. NAVIGATION is their order; what it does not
name comes last. Sphinx fails for a link that leads nowhere and for a picture that is missing.
"""

import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]

NAVIGATION = {
    "Begin": ["docs/install", "docs/tutorial", "docs/python", "docs/distributed", "docs/local_steps", "docs/horovod"],
    "Run": ["docs/launch", "docs/clusters", "docs/doctor", "docs/operations", "docs/troubleshooting", "docs/metrics", "docs/logs",
            "docs/timelines", "docs/failures", "docs/security"],
    "Look up": ["docs/reference", "docs/client", "docs/compatibility", "CHANGELOG"],
    "Understand": ["ARCHITECTURE", "docs/reliability", "docs/transport", "docs/planner", "docs/dense", "docs/sparse",
                   "docs/gpu"],
    "Measured": ["docs/performance", "docs/replay"],
    "Take part": ["CONTRIBUTING"],
}

project = "Ringwood"
release = re.search(r"project\(ringwood VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
extensions = ["myst_parser"]
myst_heading_anchors = 4  # the anchors that GitHub makes
highlight_language = "text"
root_doc = "README"
include_patterns = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md"]
exclude_patterns = ["build", ".venv", ".git"]
html_theme = "furo"
html_title = f"Ringwood {release}"
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_copy_source = False
html_show_sphinx = False


def headings():
    listed = {page for pages in NAVIGATION.values() for page in pages}
    others = [f"docs/{path.stem}" for path in sorted((ROOT / "docs").glob("*.md"))]
    return {**NAVIGATION, "More": [page for page in others if page not in listed]}


def add_navigation(app, page, source):
    """README, the first page, leads to all others."""
    if page != root_doc:
        return
    for heading, pages in headings().items():
        if pages:
            source[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {heading}", "", *pages, "```", ""])


def add_index(app, error):
    """The first page by the name that a web server looks for."""
    if error is None and app.builder.name == "html":
        shutil.copy(pathlib.Path(app.outdir) / "README.html", pathlib.Path(app.outdir) / "index.html")


def setup(app):
    app.connect("source-read", add_navigation)
    app.connect("build-finished", add_index)
    return {"parallel_read_safe": True}
