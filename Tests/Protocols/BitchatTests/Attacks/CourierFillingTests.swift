import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

/// A courier store has a limited capacity for strangers' envelopes, and an attacker can deposit under any number of
/// identities.
@Suite("Attack: many peer IDs fill a courier's store")
struct CourierFillingTests {
  /// Ann is a courier. Identities arrive one after the other, from one device or several, and deposit two envelopes
  /// each.
  private struct Stage {
    var hall = MeshHall()
    private var number: UInt64 = 0

    init() { hall.add(["ann"]) }

    var carried: [CarriedEnvelope] { Array(hall.nodes[0].engine.courier.desk.bag.envelopes.values) }

    /// - Returns: the IDs of the envelopes that Ann carries.
    mutating func visit(_ stranger: Stranger, from device: UInt64, envelopes: Int = 2, stay: Duration = .zero) throws
      -> Set<CourierID>
    {
      let link = hall.connect(to: 0, from: DeviceOrigin(address: device))
      hall.inject(stranger.announce(at: hall.time), on: link, to: 0)
      for _ in 0..<Int(stay / .seconds(10)) {
        hall.pass(.seconds(10))
        hall.inject(stranger.announce(at: hall.time), on: link, to: 0)
      }
      var ids: Set<CourierID> = []
      for _ in 0..<envelopes {
        number += 1
        var random = SeededRandom(seed: number)
        let tag = try #require(CourierTag(random.bytes(16)))
        let envelope = try CourierEnvelope(
          tag: tag, expiry: hall.time + 3_600_000, ciphertext: random.bytes(200), copies: 1)
        hall.inject(
          stranger.packet(.courier, envelope.bytes, at: hall.time + number, to: hall.nodes[0].id), on: link, to: 0)
        ids.insert(CourierID(of: envelope))
      }
      hall.pass(.milliseconds(1200))
      hall.handle(.linkClosed(link), at: 0)
      return ids.intersection(carried.map(\.id))
    }
  }

  @Test(
    "Peer IDs of one device that fill the courier store do not evict envelopes of later depositors"
  )
  func oneDevice() throws {
    var stage = Stage()
    let honest = Stranger(1)
    // Control case without an attack.
    let calm = try stage.visit(Stranger(2), from: 2)
    #expect(calm.count == 2)
    for number in UInt64(0)..<10 { _ = try stage.visit(Stranger(100 + number), from: 66) }
    #expect(stage.carried.count == 20)
    let taken = try stage.visit(honest, from: 1)
    #expect(taken.count == 2, "both are carried")
    for number in UInt64(0)..<50 { _ = try stage.visit(Stranger(200 + number), from: 66) }
    #expect(Set(stage.carried.map(\.id)).isSuperset(of: taken.union(calm)))
    #expect(stage.hall.nodes[0].engine.counters.courier.droppedForOthers > 0)
  }

  @Test(
    "Envelopes of a depositor that stays for a minute are not evicted by devices with ever new addresses"
  )
  func manyDevices() throws {
    var stage = Stage()
    for number in UInt64(0)..<10 { _ = try stage.visit(Stranger(100 + number), from: 1000 + number) }
    #expect(stage.carried.count == 20)
    let taken = try stage.visit(Stranger(1), from: 1, stay: .seconds(60))
    #expect(taken.count == 2)
    for number in UInt64(0)..<50 { _ = try stage.visit(Stranger(200 + number), from: 2000 + number) }
    #expect(Set(stage.carried.map(\.id)).isSuperset(of: taken))
  }
}
