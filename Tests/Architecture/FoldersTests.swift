import Testing

@Suite("Dependency order of the folders of a target")
struct FoldersTests {
  @Test("Files in each folder of a target use only the folders that docs/design.md lists as lower")
  func tree() throws {
    let order = FolderOrder(try House.read("docs/design.md").text)
    #expect(order.rows.count > 3)
    let files = try House.files(below: "Sources", suffix: ".swift")
    #expect(Rules.foldersAreOrdered(files, order) == [])
  }

  @Test("Files in different folders of a target do not use one another in a cycle")
  func cycles() throws {
    #expect(Rules.noCyclesAcrossFolders(try House.files(below: "Sources", suffix: ".swift")) == [])
  }

  let order = FolderOrder(
    """
    # A page
    ```folders
    Host/Bus    .
                Objects  Names
                Values
    ```
    Host/Nothing  Values
    """)

  func file(_ path: String, _ text: String) -> SourceFile { SourceFile(path: "Sources/\(path).swift", text: text) }

  var sound: [SourceFile] {
    [
      file("Host/Bus/Bus", "final class Bus { let tree: Tree }"),
      file("Host/Bus/Objects/Tree", "struct Tree { let value: Value }\nextension Tree { enum Kind {} }"),
      file("Host/Bus/Objects/Node", "struct Node { let tree: Tree }"),
      file("Host/Bus/Names/Name", "private struct Node {}\nstruct Name { let kind: Value.Kind }"),
      file("Host/Bus/Values/Value", "enum Value { enum Kind {} } // Bus, Tree\nlet text = \"Name\""),
      file("Host/Flat/Other", "struct Bus { let tree: Tree }"),
    ]
  }

  private func violations(_ more: SourceFile...) -> [String] {
    Rules.foldersAreOrdered(sound + more, order)
  }

  @Test("The list of folders is read from its block in docs/design.md, up to the end of the block")
  func block() {
    #expect(order.rows == ["Host/Bus": [["."], ["Objects", "Names"], ["Values"]]])
  }

  @Test("The target and folder of a file are found from its path, even if both have the same name")
  func places() {
    #expect(file("Host/Bus/Values/Value", "").place.map { [$0.room, $0.folder] } == ["Host/Bus", "Values"])
    #expect(file("Host/Bus/Bus", "").place.map { [$0.room, $0.folder] } == ["Host/Bus", "."])
    #expect(
      file("Services/Mesh/Mesh/Files/File", "").place.map { [$0.room, $0.folder] } == ["Services/Mesh/Mesh", "Files"])
    #expect(file("Services/Listing/List", "").place.map { [$0.room, $0.folder] } == ["Services/Listing", "."])
  }

  @Test("A file that uses types of its own folder and of lower folders is not reported")
  func downward() { #expect(violations() == []) }

  @Test("A file that uses a type of a higher folder of its target is reported")
  func upward() {
    #expect(
      violations(file("Host/Bus/Values/Path", "struct Path { let tree: Tree? }")) == [
        "Sources/Host/Bus/Values/Path.swift: uses Tree of the folder Objects, which does not stand below it"
      ])
    #expect(violations(file("Host/Bus/Objects/Face", "extension Bus { var face: Int { 1 } }")).count == 1)
  }

  @Test("A file that uses a type of a folder on the same level is reported")
  func sideways() {
    #expect(violations(file("Host/Bus/Objects/Named", "typealias Named = (Name, Tree)")).count == 1)
  }

  @Test("A type name in a comment or string, a member, and a private type of another file do not count as uses")
  func noUses() {
    let text =
      "// Tree\nlet text = \"Tree\"\nlet kind = Outer.Tree.self\nprivate enum Name { case a }\nlet node = Node()"
    let node = file("Host/Bus/Values/Node", "struct Node {}")
    let files = sound.filter { !$0.path.hasSuffix("Objects/Node.swift") } + [file("Host/Bus/Values/Texts", text), node]
    #expect(Rules.foldersAreOrdered(files, order) == [])
  }

  @Test("A folder or target that exists only in docs/design.md or only in Sources is reported")
  func missing() {
    #expect(violations(file("Host/Bus/Extras/Extra", "")) == ["Host/Bus: the folder Extras is not listed"])
    #expect(
      violations(file("Host/Radio/A/A", ""), file("Host/Radio/B/B", "")) == [
        "Host/Radio has folders, and no order is listed"
      ])
    let page = "```folders\nHost/Bus  .  Objects  Names  Values  Gone\nHost/Lost  .  A\n```"
    #expect(
      Rules.foldersAreOrdered([file("Host/Bus/A", ""), file("Host/Bus/Objects/B", "")], FolderOrder(page))
        == [
          "Host/Lost is listed, and is not a room with folders",
          "Host/Bus: the folder Gone is listed and does not exist",
          "Host/Bus: the folder Names is listed and does not exist",
          "Host/Bus: the folder Values is listed and does not exist",
        ])
  }

  @Test("A cycle of files in different folders is reported with the files; a cycle within a folder is not")
  func circles() {
    let inner = [
      file("Host/Bus/A/One", "struct One { let two: [Two] }"), file("Host/Bus/A/Two", "struct Two { let one: [One] }"),
      file("Host/Bus/B/Three", "struct Three { let one: One }"),
    ]
    #expect(Rules.noCyclesAcrossFolders(inner) == [])
    let circle = [
      file("Host/Bus/A/One", "struct One { let two: [Two] }"),
      file("Host/Bus/B/Two", "struct Two { let three: [Three] }"),
      file("Host/Bus/B/Three", "struct Three { let one: [One] }"),
      file("Host/Bus/B/Four", "struct Four { let one: One }"),
    ]
    #expect(
      Rules.noCyclesAcrossFolders(circle) == [
        "Host/Bus: A/One.swift, B/Three.swift, B/Two.swift use one another across folders"
      ])
  }
}
