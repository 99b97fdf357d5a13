import Common
import Crypto
import Testing

@testable import Bitchat

@Suite("Packets that wait to be passed on")
struct PendingRelaysTests {
  private static let hash = try? KeyedHash(key: [UInt8](repeating: 7, count: KeyedHash.keySize))

  private func relay(
    _ number: UInt8, _ type: MessageType = .message, from sender: UInt64 = 1, to recipient: UInt64? = nil,
    on link: UInt64 = 1, due milliseconds: Int, copiesEnough: Int = 3, bytes: Int = 100
  ) throws -> PendingRelays.Relay {
    let hash = try #require(Self.hash)
    return PendingRelays.Relay(
      received: [number] + [UInt8](repeating: 0, count: bytes - 1), timeToLive: 0,
      key: WireKey(version: 1, type: type.rawValue, hash: [number].withUnsafeBytes { hash.hash($0) }), type: type,
      sender: PeerID(rawValue: sender), recipient: recipient.map { PeerID(rawValue: $0) }, nextHop: nil,
      heardOn: [LinkID(link)],
      decision: RelayDecision(timeToLive: 6, delay: 0...1, copiesEnough: copiesEnough, isForSome: false),
      due: moment(milliseconds))
  }

  private func moment(_ milliseconds: Int) -> Instant { .zero.advanced(by: .milliseconds(milliseconds)) }

  private func numbers(_ relays: [PendingRelays.Relay]) -> [UInt8] { relays.map { $0.bytes[0] } }

  @Test("Packets leave at their moments, in the order of those")
  func order() throws {
    var pending = PendingRelays()
    for (number, due) in [(1, 50), (2, 10), (3, 30)] { _ = pending.add(try relay(UInt8(number), due: due)) }
    #expect(pending.deadline == moment(10))
    let first = numbers(pending.takeDue(at: moment(30)))
    #expect(first == [2, 3])
    let second = numbers(pending.takeDue(at: moment(49)))
    #expect(second == [])
    let third = numbers(pending.takeDue(at: moment(50)))
    #expect(third == [1])
    #expect(pending.deadline == nil)
  }

  @Test("What one peer sends another stays in order, whatever was drawn, and delays nobody else")
  func conversation() throws {
    var pending = PendingRelays()
    _ = pending.add(try relay(1, .noiseEncrypted, from: 1, to: 2, due: 60))
    _ = pending.add(try relay(2, .noiseEncrypted, from: 1, to: 2, due: 20))
    _ = pending.add(try relay(3, .noiseEncrypted, from: 2, to: 1, due: 20))
    _ = pending.add(try relay(4, from: 1, due: 20))
    let early = numbers(pending.takeDue(at: moment(20)))
    #expect(early == [3, 4])
    let late = numbers(pending.takeDue(at: moment(60)))
    #expect(late == [1, 2])
  }

  @Test("A packet that was heard often enough is not passed on, and is not sent where it was heard")
  func copies() throws {
    var pending = PendingRelays()
    let packet = try relay(1, due: 50)
    _ = pending.add(packet)
    let second = pending.hear(packet.key, on: LinkID(2))
    #expect(!second)
    var waiting = pending
    let due = waiting.takeDue(at: moment(50))
    #expect(due.first?.heardOn == [LinkID(1), LinkID(2)])
    let third = pending.hear(packet.key, on: LinkID(3))
    #expect(third)
    #expect(pending.count == 0)
    let unknown = pending.hear(packet.key, on: LinkID(3))
    #expect(!unknown)
  }

  @Test("A packet goes on with the highest time to live that a copy of it came with")
  func timeToLive() throws {
    var pending = PendingRelays()
    let packet = try relay(1, due: 50)
    _ = pending.add(packet)
    func passedOn(_ copies: [UInt8?]) -> UInt8? {
      var waiting = pending
      for (link, timeToLive) in copies.enumerated() {
        _ = waiting.hear(packet.key, on: LinkID(UInt64(link) + 2), timeToLive: timeToLive)
      }
      return waiting.takeDue(at: moment(50)).first?.bytes[2]
    }
    #expect(passedOn([]) == 0)
    #expect(passedOn([nil]) == 0)
    #expect(passedOn([4]) == 4)
    pending = PendingRelays()
    _ = pending.add(try relay(1, due: 50, copiesEnough: 9))
    #expect(passedOn([4, 6, 3]) == 6)
  }

  @Test("Where too many wait, public chat goes, and announces and private packets stay")
  func room() throws {
    var pending = PendingRelays()
    _ = pending.add(try relay(1, .announce, due: 10))
    _ = pending.add(try relay(2, .noiseEncrypted, to: 2, due: 20))
    var dropped = 0
    for _ in 0..<1024 { dropped += pending.add(try relay(3, due: 30)) }
    #expect(dropped == 2)
    #expect(pending.count == 1024)
    let due = numbers(pending.takeDue(at: moment(20)))
    #expect(due == [1, 2])
  }

  @Test("No more than two mebibytes wait")
  func bytes() throws {
    var pending = PendingRelays()
    var dropped = 0
    for _ in 0..<5 { dropped += pending.add(try relay(1, due: 30, bytes: 512 << 10)) }
    #expect(dropped == 1)
    #expect(pending.count == 4)
    _ = pending.takeDue(at: moment(30))
    // What has left counts no longer.
    let after = pending.add(try relay(1, due: 40, bytes: 2 << 20))
    #expect(after == 0)
  }
}
