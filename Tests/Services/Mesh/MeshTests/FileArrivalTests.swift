import Common
import Crypto
import Loop
import TestSupport
import Testing

@testable import Bitchat
@testable import BitchatWire
@testable import Mesh

@Suite("Progress of mesh files that arrive")
struct FileArrivalTests {
  init() { EventLoop.shared.runInBackground() }

  private static func content(_ count: Int) -> [UInt8] {
    var random = SeededRandom(seed: 1)
    return random.bytes(count)
  }

  @Test(
    "An arriving mesh file is listed as `receiving`, and has the same number when it is `received`",
    arguments: [true, false])
  @LoopActor
  func listed(isPrivate: Bool) throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    var seen: [UInt32: [String]] = [:]
    bob.mesh.files.changes.addForGood { [weak mesh = bob.mesh] number in
      let entry = mesh?.files[number]
      seen[number, default: []].append("\(entry?.stateName ?? "gone") \(entry?.percent ?? 0)")
    }
    let content = Self.content(1 << 20)
    _ = try ann.mesh.files.send(file: content, name: "a.bin", mime: "", to: isPrivate ? "bob" : "")
    #expect(village.wait(.seconds(300)) { bob.mesh.files.log.entries.values.contains { $0.kept != nil } })
    #expect(seen.count == 1)
    let (number, states) = try #require(seen.first)
    #expect(states.first?.hasPrefix("receiving") == true && states.last == "received 100" && states.count > 10)
    let file = try #require(bob.mesh.files[number])
    #expect(file.name == "a.bin" && file.size == content.count && file.peer == ann.id && file.isPrivate == isPrivate)
  }

  @Test(
    "A file whose sender left is removed when it is given up, and opening it before fails as incomplete"
  )
  @LoopActor
  func givenUp() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    _ = try ann.mesh.files.send(file: Self.content(1 << 20), name: "a.bin", mime: "", to: "bob")
    #expect(village.wait(.seconds(60)) { !bob.mesh.files.log.numbers.isEmpty })
    let number = try #require(bob.mesh.files.log.numbers.first)
    #expect(bob.mesh.files[number]?.stateName == "receiving" && !bob.mesh.files.cancel(number))
    var answer: String?
    bob.mesh.files.open(number) { result in
      if case .failure(let error) = result { answer = error.sentence }
    }
    #expect(village.wait(.seconds(1)) { answer != nil } && answer == "The file is not complete yet.")
    ann.mesh.stop()
    #expect(village.wait(.seconds(120)) { bob.mesh.files.log.numbers.isEmpty })
  }

  @Test("At most 16 arriving files are listed, and no file number is used twice")
  func bounds() throws {
    var arrivals = FileArrivals()
    var last: UInt32 = 0
    func file(_ number: Int) -> FragmentSetID {
      FragmentSetID(
        sender: PeerID(rawValue: 1), id: FragmentID(rawValue: UInt64(number)), type: .fileTransfer, total: 9)
    }
    func number(_ place: Int, at second: Int = 0) -> UInt32? {
      arrivals.number(of: file(place), at: Instant.zero.advanced(by: .seconds(second))) {
        last += 1
        return last
      }
    }
    for place in 1...FileArrivals.limit { #expect(number(place) == UInt32(place)) }
    #expect(number(3) == 3 && number(99) == nil)
    #expect(arrivals.ended(file(3)) == 3 && arrivals.ended(file(3)) == nil)
    #expect(number(99) == 17)
    // A peer that repeatedly begins and abandons files uses up this many numbers in a minute.
    for place in 100..<1000 where number(place) == nil || arrivals.ended(file(place)) == nil { _ = arrivals.endAll() }
    #expect(last == UInt32(FileArrivals.perMinute))
  }
}
