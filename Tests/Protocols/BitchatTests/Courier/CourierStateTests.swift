import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Own messages and receipts that couriers carry")
struct CourierStateTests {
  private let key: X25519.PublicKey
  private var desk = CourierState(limit: CourierStore.usualLimit)

  init() {
    var random = SeededRandom(seed: 1)
    key = X25519.PrivateKey(randomFrom: &random).publicKey
  }

  private static func message(_ number: Int, from sender: UInt64 = 1) throws -> ReceivedMessage {
    ReceivedMessage(sender: PeerID(rawValue: sender), id: try MessageID("M-\(number)"))
  }

  private func envelope(_ number: Int) throws -> CourierEnvelope {
    var random = SeededRandom(seed: UInt64(number))
    return try CourierEnvelope(
      tag: CourierTag(for: key, day: 1), expiry: 1000, ciphertext: random.bytes(100), copies: 4)
  }

  @Test("The last 256 own envelopes are remembered, and none whose message was delivered or has failed")
  mutating func sealed() throws {
    for number in 0..<257 { desk.remember(try envelope(number), of: try MessageID("M-\(number)")) }
    #expect(desk.envelope(of: try MessageID("M-0")) == nil)
    let kept = try envelope(1)
    #expect(desk.envelope(of: try MessageID("M-1")) == kept)
    desk.forget(try MessageID("M-1"))
    #expect(desk.envelope(of: try MessageID("M-1")) == nil)
    #expect(desk.held == [0, 0, 255, 0, 0, 0])
  }

  @Test("The last 1,000 messages that couriers delivered are remembered, and only their receipts use couriers")
  mutating func brought() throws {
    for number in 0..<1001 { desk.bring(try Self.message(number), from: key, at: 1) }
    #expect(desk.held == [0, 0, 0, 1000, 0, 0])
    let oldest = desk.entrust(try Self.message(0), isRead: false, at: 1)
    let next = desk.entrust(try Self.message(1), isRead: false, at: 1)
    let stranger = desk.entrust(try Self.message(1, from: 2), isRead: false, at: 1)
    #expect(!oldest && next && !stranger)
  }

  @Test("At most 200 receipts wait for a courier, one per message, and `read` replaces `delivered`")
  mutating func receipts() throws {
    for number in 0..<201 {
      desk.bring(try Self.message(number), from: key, at: 1)
      let isNew = desk.entrust(try Self.message(number), isRead: false, at: 1)
      #expect(isNew)
    }
    #expect(desk.receipts.count == 200 && desk.receipts.first?.message.text == "M-1")
    let again = desk.entrust(try Self.message(5), isRead: false, at: 1)
    let read = desk.entrust(try Self.message(5), isRead: true, at: 1)
    let later = desk.entrust(try Self.message(5), isRead: false, at: 1)
    #expect(!again && read && !later)
    let ofFive = desk.receipts.filter { $0.message.text == "M-5" }
    #expect(ofFive.map(\.isRead) == [true] && desk.receipts.count == 200)
  }

  @Test("When a peer is forgotten, its courier messages and receipts are removed, and its mark as new neighbour")
  mutating func forgotten() throws {
    for sender in 1...2 as ClosedRange<UInt64> {
      desk.bring(try Self.message(1, from: sender), from: key, at: 1)
      _ = desk.entrust(try Self.message(1, from: sender), isRead: false, at: 1)
      desk.newcomers.insert(PeerID(rawValue: sender))
    }
    desk.forget(PeerID(rawValue: 1))
    #expect(desk.held == [0, 1, 0, 1, 1, 0])
    let again = desk.entrust(try Self.message(1, from: 1), isRead: true, at: 1)
    #expect(!again && desk.newcomers == [PeerID(rawValue: 2)])
  }
}
