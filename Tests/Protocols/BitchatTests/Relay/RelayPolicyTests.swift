import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Relay policies of a mesh node")
struct RelayPolicyTests {
  static func subject(_ type: MessageType, _ timeToLive: UInt8, isDirected: Bool = false) -> RelaySubject {
    RelaySubject(type: type, timeToLive: timeToLive, isDirected: isDirected)
  }

  @Test(
    "The apps' relay policy gives public packets the TTL of its table",
    arguments: Vectors.shared.relayTtlIos.cases)
  func appsTable(row: Vectors.RelaySection.Row) {
    let subject = Self.subject(row.announce ? .announce : .message, row.ttl)
    #expect(RelayPolicy.apps.decide(subject, degree: row.degree)?.timeToLive == row.newTtl)
  }

  @Test("The mains policy reduces the TTL by one, relays to all links, and delays new announces less than chat")
  func mains() throws {
    for timeToLive in UInt8(2)...7 {
      for degree in [1, 5, 8] {
        let chat = try #require(RelayPolicy.mains.decide(Self.subject(.message, timeToLive), degree: degree))
        #expect(chat.timeToLive == timeToLive - 1)
        #expect(chat.copiesEnough == 3 && !chat.isForSome)
        let announce = try #require(RelayPolicy.mains.decide(Self.subject(.announce, timeToLive), degree: degree))
        #expect(announce.delay.upperBound < chat.delay.lowerBound)
        // An announce of a known peer is not urgent, and fewer nodes need to relay it.
        var subject = Self.subject(.announce, timeToLive)
        subject.isOfKnown = true
        let known = try #require(RelayPolicy.mains.decide(subject, degree: degree))
        #expect(known.delay == chat.delay && known.copiesEnough == 2 && announce.copiesEnough == 3)
      }
    }
  }

  @Test("A received TTL of 255 is relayed as 6", arguments: [RelayPolicy.apps, .mains])
  func longLife(policy: RelayPolicy) {
    #expect(policy.decide(Self.subject(.announce, 255), degree: 2)?.timeToLive == 6)
  }

  @Test(
    "A packet with TTL 1 or 0 is not relayed, and neither is a sync request", arguments: RelayPolicy.allCases)
  func ends(policy: RelayPolicy) {
    #expect(policy.decide(Self.subject(.message, 0), degree: 2) == nil)
    #expect(policy.decide(Self.subject(.message, 1), degree: 2) == nil)
    #expect(policy.decide(Self.subject(.requestSync, 7), degree: 2) == nil)
  }

  @Test("The relay policy `off` relays nothing")
  func off() {
    #expect(RelayPolicy.off.decide(Self.subject(.message, 7), degree: 1) == nil)
  }

  @Test("A limit of 2 hops for encrypted packets does not apply to other packet types")
  func encryptedLimit() {
    func timeToLive(_ type: MessageType) -> UInt8? {
      RelayPolicy.mains.decide(Self.subject(type, 7, isDirected: true), degree: 3, encryptedLimit: 2)?.timeToLive
    }
    #expect(timeToLive(.noiseEncrypted) == 2)
    #expect(timeToLive(.noiseHandshake) == 6)
    #expect(timeToLive(.message) == 6)
    let none = RelayPolicy.mains.decide(
      Self.subject(.noiseEncrypted, 7, isDirected: true), degree: 3, encryptedLimit: 0)
    #expect(none == nil)
  }

  @Test("In the apps' relay policy the delay grows with the links, and only chat is sent to a part of the links")
  func appsDelay() throws {
    var last: Int64 = 0
    for degree in [1, 3, 6, 10] {
      let chat = try #require(RelayPolicy.apps.decide(Self.subject(.message, 7), degree: degree))
      #expect(chat.delay.lowerBound >= 10 && chat.delay.upperBound > last && chat.isForSome)
      last = chat.delay.upperBound
      #expect(try #require(RelayPolicy.apps.decide(Self.subject(.announce, 7), degree: degree)).isForSome == false)
      #expect(try #require(RelayPolicy.apps.decide(Self.subject(.fragment, 7), degree: degree)).isForSome == false)
    }
  }

  @Test("In the apps' relay policy a second copy cancels a relay, unless there are at most 2 links")
  func appsCopies() {
    #expect(RelayPolicy.apps.decide(Self.subject(.message, 7), degree: 2)?.copiesEnough == .max)
    #expect(RelayPolicy.apps.decide(Self.subject(.message, 7), degree: 3)?.copiesEnough == 2)
  }

  @Test("In the apps' relay policy chat is sent to the recorded number of 0 to 9 links")
  func someLinks() {
    #expect((0...9).map(RelayPolicy.someLinks) == [0, 1, 2, 3, 3, 4, 4, 4, 4, 5])
  }
}
