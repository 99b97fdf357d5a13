import Common
import Testing

@testable import Bitchat

@Suite("How packets of others are passed on")
struct RelayPolicyTests {
  static func subject(_ type: MessageType, _ timeToLive: UInt8, isDirected: Bool = false) -> RelaySubject {
    RelaySubject(type: type, timeToLive: timeToLive, isDirected: isDirected)
  }

  @Test(
    "By the apps' rules a public packet goes on with the time to live of the table",
    arguments: Vectors.shared.relayTtlIos.cases)
  func appsTable(row: Vectors.RelaySection.Row) {
    let subject = Self.subject(row.announce ? .announce : .message, row.ttl)
    #expect(RelayPolicy.apps.decide(subject, degree: row.degree)?.timeToLive == row.newTtl)
  }

  @Test("A node on mains power takes one off and passes on to all, an announce before chat")
  func mains() throws {
    for timeToLive in UInt8(2)...7 {
      for degree in [1, 5, 8] {
        let chat = try #require(RelayPolicy.mains.decide(Self.subject(.message, timeToLive), degree: degree))
        #expect(chat.timeToLive == timeToLive - 1)
        #expect(chat.copiesEnough == 3 && !chat.isForSome)
        let announce = try #require(RelayPolicy.mains.decide(Self.subject(.announce, timeToLive), degree: degree))
        #expect(announce.delay.upperBound < chat.delay.lowerBound)
        // One of a peer that everybody knows has time, and fewer need to say it.
        var subject = Self.subject(.announce, timeToLive)
        subject.isOfKnown = true
        let known = try #require(RelayPolicy.mains.decide(subject, degree: degree))
        #expect(known.delay == chat.delay && known.copiesEnough == 2 && announce.copiesEnough == 3)
      }
    }
  }

  @Test("Nobody makes a packet live longer than seven hops", arguments: [RelayPolicy.apps, .mains])
  func longLife(policy: RelayPolicy) {
    #expect(policy.decide(Self.subject(.announce, 255), degree: 2)?.timeToLive == 6)
  }

  @Test(
    "A packet with one hop left or none ends here, and a request for sync always does", arguments: RelayPolicy.allCases)
  func ends(policy: RelayPolicy) {
    #expect(policy.decide(Self.subject(.message, 0), degree: 2) == nil)
    #expect(policy.decide(Self.subject(.message, 1), degree: 2) == nil)
    #expect(policy.decide(Self.subject(.requestSync, 7), degree: 2) == nil)
  }

  @Test("A node whose relaying is off passes nothing on")
  func off() {
    #expect(RelayPolicy.off.decide(Self.subject(.message, 7), degree: 1) == nil)
  }

  @Test("Encrypted packets go two hops at most where that is set, and no other packet does")
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

  @Test("By the apps' rules the delay rises with the number of links, and announces and fragments go to all of them")
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

  @Test("By the apps' rules a second copy makes a packet superfluous, but not where there are two links or fewer")
  func appsCopies() {
    #expect(RelayPolicy.apps.decide(Self.subject(.message, 7), degree: 2)?.copiesEnough == .max)
    #expect(RelayPolicy.apps.decide(Self.subject(.message, 7), degree: 3)?.copiesEnough == 2)
  }

  @Test("By the apps' rules a part of the links is the digits of one link fewer, and one")
  func someLinks() {
    #expect((0...9).map(RelayPolicy.someLinks) == [0, 1, 2, 3, 3, 4, 4, 4, 4, 5])
  }
}
