import Testing

@Suite("The picture of the rooms")
struct PictureTests {
  @Test("The picture in the design shows the rooms of Package.swift in order")
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

  @Test("A correct picture has no differences")
  func right() {
    #expect(Picture(Self.picture).differences(from: manifest) == [])
    #expect(Picture(Self.picture).rows.count == 6)
  }

  @Test("A missing, added, doubled or misplaced room is reported")
  func rooms() {
    #expect(differences("            Loop\n", "") == ["host/Loop is not in the picture"])
    #expect(differences("Bus\n", "Bus  Radio\n") == ["host/Radio is in the picture and not in Package.swift"])
    #expect(differences("            Loop\n", "            Loop  Bus\n") == ["host/Bus is there twice"])
    #expect(differences("Host  ", "Hosts  ").first == "Hosts is no layer")
    #expect(differences("```rooms", "```").count == 6 + 4)
  }

  @Test("A room beside or above one that it uses is reported")
  func order() {
    #expect(
      differences("Bus\n            Loop\n", "Loop\n            Bus\n") == [
        "Bus uses Loop, which does not stand below it"
      ])
    #expect(differences("Bus\n            Loop\n", "Bus  Loop\n") == ["Bus uses Loop, which does not stand below it"])
  }

  @Test("A missing or superfluous arrow and layers in the wrong order are reported")
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
