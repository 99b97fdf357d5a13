import Common
import Crypto
import TestSupport
import Testing

@testable import Nostr

@Suite("Mutated Nostr events")
struct HostileTests {
  /// A run tries 10,000 mutations of each kind; with `ALL=1` it tries 100,000 of the first kind.
  private static let count = Extent.of(10_000, all: 100_000)

  @Test("Every mutated event is accepted only if its content is unchanged, and otherwise refused with one reason")
  func events() throws {
    var random = SeededRandom(seed: 3)
    let event = try EventDraft(
      author: People.key(3).xOnlyKey, createdAt: People.now, kind: .channelText,
      tags: [["g", "u4pruy"], ["n", "al\"i\n"]], content: "hi é🍕"
    ).signed(with: People.key(3), randomFrom: &random)
    let bytes = event.jsonBytes
    var dice = Dice(15)
    var refusals: [EventRefusal: Int] = [:]
    var accepted = 0
    for _ in 0..<Self.count {
      let mutated = dice.mutated(bytes)
      do throws(EventRefusal) {
        let verified = try ReceivedEvent(json: mutated).verified()
        #expect(verified == event)
        accepted += 1
      } catch {
        refusals[error, default: 0] += 1
      }
    }
    #expect(refusals.values.reduce(accepted, +) == Self.count)
    #expect(Set(refusals.keys) == [.malformedEvent, .wrongID, .wrongSignature])
  }

  @Test("Every mutated envelope is refused with one reason, whichever of its three events was mutated")
  func envelopes() throws {
    let reader = PrivateEnvelope.Reader(key: try People.key(7), dialects: Set(EnvelopeDialect.allCases))
    var refusals: [EventRefusal: Int] = [:]
    var opened = 0
    let count = Self.count / 20
    for number in 0..<count {
      var dice = Dice(UInt64(number))
      var forge = try Forge(dice.below(2) == 0 ? .app : .nip17)
      var text = JSONText(controls: .escaped)
      text.event(forge.rumor, id: forge.rumorID, signature: nil)
      if dice.below(2) == 0 {
        forge.rumorText = String(decoding: dice.mutated(text.bytes), as: UTF8.self)
      } else {
        let seed = dice.next()
        forge.changeSeal = { seal in
          var dice = Dice(seed)
          return String(decoding: dice.mutated(Array(seal.utf8)), as: UTF8.self)
        }
      }
      let wrap = try forge.wrap()
      do throws(EventRefusal) {
        let message = try PrivateEnvelope.open(wrap, by: reader, now: People.now) { $0 == forge.sender.xOnlyKey }
        #expect(message.sender == forge.sender.xOnlyKey)
        opened += 1
      } catch {
        refusals[error, default: 0] += 1
      }
    }
    #expect(refusals.values.reduce(opened, +) == count)
    #expect(refusals.keys.contains(.malformedSeal) && refusals.keys.contains(.malformedRumor))
    #expect(refusals.keys.contains(.sealNotSigned))
  }

  @Test("The Nostr engine handles any messages of its relays without a crash, and its state stays bounded")
  func engine() throws {
    var world = NostrWorld()
    try world.add(7, contacts: [3])
    world.start()
    var forge = try Forge()
    let event = try forge.wrap().json
    let link = RelayLink(NostrWorld.one)
    var dice = Dice(4)
    for _ in 0..<(Self.count / 5) {
      let id = world.subscription(0, link) ?? "none"
      let seeds = [
        "[\"EVENT\",\"\(id)\",\(event)]", "[\"EOSE\",\"\(id)\"]", "[\"CLOSED\",\"\(id)\",\"error: x\"]",
        "[\"OK\",\"\(String(repeating: "a", count: 64))\",true,\"\"]", "[\"AUTH\",\"c\"]", "[\"NOTICE\",\"n\"]",
      ]
      let seed = Array(seeds[dice.below(seeds.count)].utf8)
      world.handle(0, .received(link, dice.below(3) == 0 ? dice.mutated(seed) : seed))
      world.run(.milliseconds(Int64(dice.below(3000))))
      #expect(world.nodes[0].deadline(at: world.now, wall: world.wall).map { $0 >= world.now } ?? true)
    }
    #expect(world.logs[0].messages.count <= 1)
    #expect((world.count("MalformedMessages", of: 0) ?? 0) > 0)
    #expect(world.state(0, RelayLink(NostrWorld.two)) == .live)
  }
}
