import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Slots of the courier store")
struct CourierStoreTests {
  private let tag = CourierTag([UInt8](repeating: 1, count: 16))

  /// An envelope with unique content.
  private func carried(
    _ number: Int, from depositor: UInt64 = 1, isOfFavourite: Bool = false, copies: UInt8 = 4, expiry: UInt64 = 1000,
    bytes: Int = 200, at time: UInt64? = nil
  ) throws -> CarriedEnvelope {
    var random = SeededRandom(seed: UInt64(number))
    return CarriedEnvelope(
      envelope: try CourierEnvelope(
        tag: try #require(tag), expiry: expiry, ciphertext: random.bytes(bytes), copies: copies),
      depositor: PeerID(rawValue: depositor), isOfFavourite: isOfFavourite, storedAt: time ?? UInt64(number))
  }

  /// Adds an envelope, and returns the result.
  private func add(_ envelope: CarriedEnvelope, to bag: inout CourierStore) -> Result<
    CourierStore.Taken, CourierStore.Refusal
  > {
    do throws(CourierStore.Refusal) { return .success(try bag.add(envelope)) } catch { return .failure(error) }
  }

  @Test("A store for 40 envelopes holds 2 of each stranger and 5 of each favourite; other sizes are proportional")
  func ofDepositor() throws {
    for (limit, ofStranger, ofFavourite) in [(40, 2, 5), (1000, 50, 125), (8, 1, 1)] {
      for (isFavourite, places) in [(false, ofStranger), (true, ofFavourite)] {
        var bag = CourierStore(limit: limit)
        for number in 0..<places {
          let result = add(try carried(number, isOfFavourite: isFavourite), to: &bag)
          #expect(result == .success(.init(isNew: true)), "\(limit) \(number)")
        }
        let refused = add(try carried(5000, isOfFavourite: isFavourite), to: &bag)
        #expect(refused == .failure(.tooManyOfDepositor), "\(limit) \(places)")
        // A second depositor's envelope is still accepted.
        let other = add(try carried(6000, from: 2, isOfFavourite: isFavourite), to: &bag)
        #expect(other == .success(.init(isNew: true)) || limit == 8)
      }
    }
  }

  @Test("Strangers fill at most 20 of 40 slots; favourites fill all 40, and evict a stranger's oldest envelope")
  func ofStrangers() throws {
    var bag = CourierStore()
    for number in 0..<20 {
      let result = add(try carried(number, from: UInt64(number / 2)), to: &bag)
      #expect(result == .success(.init(isNew: true)))
    }
    let refused = add(try carried(100, from: 100), to: &bag)
    #expect(refused == .failure(.tooManyOfStrangers))
    for number in 0..<20 {
      let result = add(try carried(200 + number, from: UInt64(200 + number / 5), isOfFavourite: true), to: &bag)
      #expect(result == .success(.init(isNew: true)))
    }
    #expect(bag.count == 40)
    // The oldest envelope from a stranger is evicted for a favourite's.
    let oldest = try carried(0).id
    let taken = add(try carried(300, from: 300, isOfFavourite: true), to: &bag)
    #expect(taken == .success(.init(isNew: true, dropped: [oldest])))
    #expect(bag.count == 40 && bag.envelopes[oldest] == nil)
    // Nineteen envelopes of strangers are left, and a new one would have to evict one of them.
    let full = add(try carried(301, from: 301), to: &bag)
    #expect(full == .failure(.full))
  }

  @Test("In a store full of favourites' envelopes, one of another favourite evicts the oldest")
  func full() throws {
    var bag = CourierStore()
    for number in 0..<40 { _ = try bag.add(try carried(number, from: UInt64(number / 5), isOfFavourite: true)) }
    let taken = try bag.add(try carried(100, from: 100, isOfFavourite: true))
    let oldest = try carried(0).id
    #expect(taken.dropped == [oldest])
    let refused = add(try carried(101, from: 101), to: &bag)
    #expect(refused == .failure(.full))
  }

  @Test("An envelope that was handed over does not count for its depositor")
  func handed() throws {
    var bag = CourierStore()
    let first = try carried(0)
    _ = try bag.add(first)
    _ = try bag.add(try carried(1))
    bag.change(first.id) { $0.handed = 1 }
    #expect(bag.count == 1)
    _ = try bag.add(try carried(2))
    for number in 10..<47 { _ = try bag.add(try carried(number, from: UInt64(number), isOfFavourite: true)) }
    #expect(bag.envelopes.count == 40)
    let taken = try bag.add(try carried(3, from: 9))
    #expect(taken.dropped == [first.id])
  }

  @Test("An envelope that was handed over is evicted before all others, even before older ones of strangers")
  func handedFirst() throws {
    var bag = CourierStore()
    for number in 0..<20 { _ = try bag.add(try carried(number, from: UInt64(number / 2))) }
    for number in 20..<40 { _ = try bag.add(try carried(number, from: UInt64(100 + number / 5), isOfFavourite: true)) }
    let last = try carried(39)
    bag.change(last.id) { $0.handed = 1 }
    let taken = try bag.add(try carried(100, from: 200, isOfFavourite: true))
    #expect(taken.dropped == [last.id])
  }

  @Test("An envelope that a full courier store refuses evicts no other envelope")
  func refusedWhole() throws {
    var bag = CourierStore(limit: 1000)
    let handed = try carried(0)
    _ = try bag.add(handed)
    bag.change(handed.id) { $0.handed = 1 }
    var number = 1
    while bag.bytes + (16 << 10) + 128 <= CourierStore.byteLimit {
      _ = try bag.add(try carried(number, from: UInt64(number), isOfFavourite: true, bytes: 16 << 10))
      number += 1
    }
    // Evicting the envelope that was handed over would not free enough bytes.
    let before = bag.bytes
    let large = add(try carried(5000, from: 5000, bytes: 16 << 10), to: &bag)
    #expect(large == .failure(.full))
    #expect(bag.bytes == before && bag.envelopes[handed.id] != nil)
  }

  @Test("Restored envelopes that exceed the byte limit of the courier store are refused")
  func restored() throws {
    var bag = CourierStore(limit: 1000)
    var taken = 0
    for number in 0..<600 where bag.restore(try carried(number, from: UInt64(number), bytes: 16 << 10)) { taken += 1 }
    #expect(taken == CourierStore.byteLimit / ((16 << 10) + 128) && bag.bytes <= CourierStore.byteLimit)
    var small = CourierStore(limit: 3)
    let results = try (0..<4).map { small.restore(try carried($0, from: UInt64($0))) }
    #expect(results == [true, true, true, false])
  }

  @Test("A courier store with 1,000 slots holds no more bytes than its byte limit")
  func bytes() throws {
    var bag = CourierStore(limit: 1000)
    var taken = 0
    for number in 0..<1000 {
      let result = add(try carried(number, from: UInt64(number), isOfFavourite: false, bytes: 16 << 10), to: &bag)
      if case .success = result { taken += 1 }
      #expect(bag.bytes <= CourierStore.byteLimit)
    }
    #expect(taken == bag.count && bag.count == 500)
    for number in 1000..<2000 {
      _ = add(try carried(number, from: UInt64(number), isOfFavourite: true, bytes: 16 << 10), to: &bag)
      #expect(bag.bytes <= CourierStore.byteLimit)
    }
    #expect(bag.count == CourierStore.byteLimit / ((16 << 10) + 128))
    for id in bag.envelopes.keys { bag.remove(id) }
    let own = try #require(tag)
    #expect(bag.bytes == 0 && bag.addressed(to: [own]).isEmpty)
  }

  @Test("A repeated envelope is stored once, and raises the copy count only before copies were given away")
  func repeated() throws {
    var bag = CourierStore()
    let one = try carried(1, copies: 1)
    _ = try bag.add(one)
    let more = try bag.add(try carried(1, from: 7, copies: 4))
    #expect(more == .init(isNew: false, isChanged: true))
    #expect(bag.count == 1 && bag.envelopes[one.id]?.envelope.copies == 4)
    let fewer = try bag.add(try carried(1, copies: 2))
    #expect(fewer == .init(isNew: false, isChanged: false))
    #expect(bag.envelopes[one.id]?.envelope.copies == 4)
    bag.change(one.id) {
      $0.envelope.copies = 2
      $0.givenTo = [PeerID(rawValue: 9)]
    }
    let again = try bag.add(try carried(1, copies: 8))
    #expect(again == .init(isNew: false, isChanged: false))
    #expect(bag.envelopes[one.id]?.envelope.copies == 2)
  }

  @Test("An envelope with a changed tag, expiry or prekey is stored separately from the original")
  func changedOutside() throws {
    var bag = CourierStore()
    let one = try carried(1)
    _ = try bag.add(one)
    let other = try #require(CourierTag([UInt8](repeating: 2, count: 16)))
    let (tag, cipher) = (one.envelope.tag, one.envelope.ciphertext)
    let changed = [
      try CourierEnvelope(tag: other, expiry: 1000, ciphertext: cipher, copies: 4),
      try CourierEnvelope(tag: tag, expiry: 1001, ciphertext: cipher, copies: 4),
      try CourierEnvelope(tag: tag, expiry: 1000, ciphertext: cipher, copies: 4, prekey: 7),
    ]
    for (number, envelope) in changed.enumerated() {
      let carried = CarriedEnvelope(
        envelope: envelope, depositor: PeerID(rawValue: UInt64(10 + number)), isOfFavourite: false, storedAt: 2)
      #expect(try bag.add(carried).isNew)
    }
    #expect(bag.count == 4 && bag.addressed(to: [tag]).contains { $0.envelope == one.envelope })
  }

  @Test("A courier gets copies only of envelopes of other depositors and recipients that it does not have")
  func copies() throws {
    var bag = CourierStore()
    let ids = try [1, 2, 3, 4].map { try carried($0, from: UInt64($0), copies: $0 == 4 ? 1 : 4) }
    for envelope in ids { _ = try bag.add(envelope) }
    bag.change(ids[1].id) { $0.givenTo = [PeerID(rawValue: 1)] }
    #expect(bag.copies(for: PeerID(rawValue: 1), tags: []).map(\.id) == [ids[2].id])
    #expect(bag.copies(for: PeerID(rawValue: 9), tags: []).map(\.id) == ids[..<3].map(\.id))
    let own = try #require(tag)
    #expect(bag.copies(for: PeerID(rawValue: 9), tags: [own]).isEmpty)
  }

  @Test("A courier envelope is removed exactly at its expiry")
  func expiry() throws {
    var bag = CourierStore()
    for (number, expiry) in [(1, 999), (2, 1000), (3, 1001)] as [(Int, UInt64)] {
      _ = try bag.add(try carried(number, from: UInt64(number), expiry: expiry))
    }
    let early = bag.expire(at: 998)
    #expect(early.isEmpty)
    let gone = bag.expire(at: 1000)
    let old = try [1, 2].map { try carried($0, expiry: UInt64(998 + $0)).id }
    #expect(Set(gone) == Set(old))
    #expect(bag.count == 1)
  }

  @Test("A courier store for 2 envelopes restores 2 of an earlier run and refuses the third")
  func restoring() throws {
    var bag = CourierStore(limit: 2)
    var taken: [Bool] = []
    for number in [1, 1, 2, 3] { taken.append(bag.restore(try carried(number))) }
    #expect(taken == [true, false, true, false])
    let own = try #require(tag)
    #expect(bag.addressed(to: [own]).count == 2)
  }
}
