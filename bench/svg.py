"""A small SVG canvas for the charts of docs/: it follows the reader's light or dark colour scheme."""
import html

STYLE = """<style>
text { fill: #1f2328 } .soft { fill: #59636e } .page { fill: #ffffff }
.grid { stroke: #d8dee4 } .axis { stroke: #59636e } .mark { fill: #ffffff; stroke: #1f2328 }
.blue { fill: #2f6fb0 } .orange { fill: #c96a12 } .green { fill: #2f8f4e }
line.blue { stroke: #2f6fb0 } line.orange { stroke: #c96a12 } line.green { stroke: #2f8f4e }
.teal { fill: #1a8a94 } .violet { fill: #7a4fb5 } line.teal { stroke: #1a8a94 } line.violet { stroke: #7a4fb5 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .soft { fill: #9aa4af } .page { fill: #0d1117 }
.grid { stroke: #2d333b } .axis { stroke: #9aa4af } .mark { fill: #0d1117; stroke: #e6edf3 }
.blue { fill: #6cb0f5 } .orange { fill: #f0a35a } .green { fill: #62c98a }
line.blue { stroke: #6cb0f5 } line.orange { stroke: #f0a35a } line.green { stroke: #62c98a }
.teal { fill: #56c4cf } .violet { fill: #b696ec } line.teal { stroke: #56c4cf } line.violet { stroke: #b696ec }
}
</style>"""


class Canvas:
    """Shapes in pixels from the upper left corner; `style` names classes of STYLE."""

    def __init__(self, width, height):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                      f'height="{height}" font-family="Helvetica, Arial, sans-serif" font-size="12">', STYLE,
                      f'<rect class="page" width="{width}" height="{height}"/>']

    def text(self, x, y, words, anchor="start", style="", size=12, bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{style}" '
                          f'font-size="{size}"{weight}>{html.escape(words)}</text>')

    def line(self, x1, y1, x2, y2, style, width=1.0):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}" '
                          f'stroke-width="{width}"/>')

    def dot(self, x, y, radius, style, tip=""):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="{style}">'
                          f'<title>{html.escape(tip)}</title></circle>')

    def diamond(self, x, y, radius, style, tip=""):
        self.parts.append(f'<path d="M{x:.1f} {y - radius:.1f}l{radius} {radius}l-{radius} {radius}l-{radius} '
                          f'-{radius}z" class="{style}"><title>{html.escape(tip)}</title></path>')

    def __str__(self):
        return "\n".join([*self.parts, "</svg>"]) + "\n"
