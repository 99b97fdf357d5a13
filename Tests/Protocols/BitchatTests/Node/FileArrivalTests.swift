import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Progress of mesh files during reception")
struct FileArrivalTests {
  /// Two neighbours, one of which sends fragments with a pause between them.
  private static func hall() -> MeshHall {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    hall.filePacketTime = .milliseconds(40)
    hall.pass(.seconds(3))
    return hall
  }

  @Test(
    "The percentage of an arriving file grows, and the complete file has the same fragment ID",
    arguments: [true, false])
  func reported(isPrivate: Bool) throws {
    var hall = Self.hall()
    let content = FileTests.content(100_000)
    let bob = hall.nodes[1]
    try hall.sendFile(content, to: isPrivate ? 1 : nil, as: 3, at: 0)
    hall.pass(.seconds(60)) { !bob.files.isEmpty }
    #expect(bob.files.map(\.content) == [content])
    let (id, percents) = try #require(bob.arriving.first)
    #expect(bob.arriving.count == 1 && bob.files.first?.arrival == id && bob.arrivalsEnded.contains(id))
    #expect(percents.count > 20 && percents == Array(Set(percents)).sorted() && (percents.last ?? 100) < 100)
    #expect(hall.nodes[0].arriving.isEmpty)
  }

  @Test("A text in fragments is not reported as an arriving file, and a file in one packet has no progress")
  func others() throws {
    var hall = Self.hall()
    _ = hall.say(String(repeating: "tea at four ", count: 400), at: 0)
    try hall.sendFile(FileTests.content(20), as: 3, at: 0)
    hall.pass(.seconds(30))
    #expect(hall.nodes[1].arriving.isEmpty && hall.nodes[1].files.count == 1)
  }

  @Test("A file that stops arriving is reported as ended when its fragments expire")
  func givenUp() throws {
    var hall = Self.hall()
    try hall.sendFile(FileTests.content(100_000), to: 1, as: 3, at: 0)
    let bob = hall.nodes[1]
    hall.pass(.seconds(20)) { (bob.arriving.values.first?.last ?? 0) >= 40 }
    let id = try #require(bob.arriving.keys.first)
    for link in hall.links(0, 1) { hall.disconnect(link) }
    hall.pass(.seconds(20))
    #expect(bob.arrivalsEnded.isEmpty)
    hall.pass(.seconds(60))
    #expect(bob.arrivalsEnded == [id] && bob.files.isEmpty)
  }
}
