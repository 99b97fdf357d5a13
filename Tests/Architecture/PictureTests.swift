import Testing

@Suite("The diagram of targets in docs/design.md")
struct PictureTests {
  @Test("The diagram in docs/design.md shows all targets of Package.swift in dependency order")
  func tree() throws {
    let picture = Picture(try House.read("docs/design.md").text)
    #expect(picture.rows.count > 5)
    #expect(picture.differences(from: try House.manifest()) == [])
  }

  let manifest = Manifest(
    """
    library("CBus"),
    room("Base/Bytes"),
    room("Base/Crypto", ["Bytes"]),
    room("Host/Loop", ["Bytes"]),
    room("Host/Bus", ["Loop", "CBus"]),
    program("daemon", ["Bus", "Crypto"]),
    """)
  static let picture = """
    # A page
    ```rooms
    Programs    daemon
                --> Host Base
    Host        Bus
                Loop
                --> Base System
    Base        Crypto
                Bytes
    System      CBus
    ```
    Host        Nothing
    """

  private func differences(_ old: String, _ new: String) -> [String] {
    let parts = Self.picture.split(separator: old, maxSplits: 1, omittingEmptySubsequences: false)
    #expect(parts.count == 2)
    return Picture(parts.joined(separator: new)).differences(from: manifest)
  }

  @Test("A diagram that matches Package.swift has no reported differences")
  func right() {
    #expect(Picture(Self.picture).differences(from: manifest) == [])
    #expect(Picture(Self.picture).rows.count == 6)
  }

  @Test("A target that is missing from the diagram, superfluous, shown twice or misplaced is reported")
  func rooms() {
    #expect(differences("            Loop\n", "") == ["host/Loop is not in the picture"])
    #expect(differences("Bus\n", "Bus  Radio\n") == ["host/Radio is in the picture and not in Package.swift"])
    #expect(differences("            Loop\n", "            Loop  Bus\n") == ["host/Bus is there twice"])
    #expect(differences("Host  ", "Hosts  ").first == "Hosts is no layer")
    #expect(differences("```rooms", "```").count == 6 + 4)
  }

  @Test("A target in the diagram that is beside or above a target that it depends on is reported")
  func order() {
    #expect(
      differences("Bus\n            Loop\n", "Loop\n            Bus\n") == [
        "Bus uses Loop, which does not stand below it"
      ])
    #expect(differences("Bus\n            Loop\n", "Bus  Loop\n") == ["Bus uses Loop, which does not stand below it"])
  }

  @Test("A missing or superfluous arrow in the diagram, or layers in the wrong order, are reported")
  func arrows() {
    #expect(
      differences("--> Host Base", "--> Host") == ["daemon uses Crypto, and no arrow leads from programs to base"])
    #expect(differences("--> Host Base", "--> Host Base System") == ["no room of programs uses one of system"])
    #expect(differences("--> Host Base", "--> Host Base Cellar") == ["Cellar is no layer"])
    let swapped = """
      ```rooms
      Base        Crypto
                  Bytes
      Host        Bus
                  Loop
                  --> Base System
      Programs    daemon
                  --> Host Base
      System      CBus
      ```
      """
    #expect(
      Picture(swapped).differences(from: manifest) == [
        "base does not stand below host", "base does not stand below programs", "host does not stand below programs",
      ])
  }
}
