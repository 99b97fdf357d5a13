import DBus
import Testing

struct ObjectPathTests {
  @Test(
    "An object path is accepted only if it is valid in D-Bus",
    arguments: [
      ("/", true), ("/a", true), ("/a/B_9", true), ("", false), ("a", false), ("/a/", false), ("//", false),
      ("/a b", false), ("/a-b", false), ("/ä", false), ("/a\0", false),
    ])
  func validity(_ text: String, _ isPath: Bool) {
    #expect((ObjectPath(text) != nil) == isPath)
  }

  @Test("A D-Bus object path gives its parent, its children and its descendants")
  func family() {
    let path: ObjectPath = "/a/b"
    #expect(path.parent == "/a" && path.parent?.parent == .root && ObjectPath.root.parent == nil)
    #expect(path.child("c") == "/a/b/c" && ObjectPath.root.child("c") == "/c")
    #expect(path.lastElement == "b" && ObjectPath.root.lastElement.isEmpty)
    #expect(path.isWithin("/a") && path.isWithin(path) && path.isWithin(.root))
    #expect(!path.isWithin("/a/b/c") && !("/ab" as ObjectPath).isWithin("/a"))
    #expect(path.child("x y") == "/a/b/x_20y" && path.child("") == "/a/b/_")
  }

  @Test(
    "Any name is escaped to a valid element of an object path",
    arguments: [
      ("abc", "abc"), ("", "_"), ("9a", "_39a"), ("a9", "a9"), ("a_b", "a_5fb"), ("ä", "_c3_a4"), ("\0", "_00"),
      ("/", "_2f"),
    ])
  func escape(_ name: String, _ element: String) {
    #expect(ObjectPath.escape(name) == element)
    #expect(ObjectPath("/" + element) != nil)
  }
}
