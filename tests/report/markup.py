"""A strict reader of the pages: every fault that a browser would forgive is an error here."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "hr", "input", "col", "base", "wbr", "path", "circle", "line", "rect"}


class Page(HTMLParser):
    """Collects elements with their attributes and text; refuses what is not closed or closed twice."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.faults = [], [], []
        self.feed(html)
        self.close()
        self.faults += [f"<{one['tag']}> is never closed" for one in self.open]

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.faults.append(f"<{tag}> has an attribute twice")
        one = {"tag": tag, "attrs": dict(attrs), "text": "", "inside": [o["tag"] for o in self.open]}
        self.elements.append(one)
        self.handle_data(" ")
        if tag not in VOID:
            self.open.append(one)

    def handle_startendtag(self, tag, attrs):
        self.elements.append({"tag": tag, "attrs": dict(attrs), "text": "", "inside": [o["tag"] for o in self.open]})

    def handle_endtag(self, tag):
        if not self.open or self.open[-1]["tag"] != tag:
            self.faults.append(f"</{tag}> closes {self.open[-1]['tag'] if self.open else 'nothing'}")
            while self.open and self.open[-1]["tag"] != tag:
                self.open.pop()
        if self.open:
            self.open.pop()

    def handle_data(self, data):
        for one in self.open:
            one["text"] += data

    def all(self, *tags):
        return [one for one in self.elements if one["tag"] in tags]

    def text(self):
        return " ".join(next(one["text"] for one in self.elements if one["tag"] == "body").split())
