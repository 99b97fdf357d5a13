import BitchatWire
import Common
import Radio
import Testing

@testable import Mesh

@Suite("Which advertisers a mesh node connects to")
struct NeighbourFinderTests {
  private static let one = BluetoothAddress(1)
  private static let other = BluetoothAddress(2)

  private static func scanResult(_ address: BluetoothAddress, rssi: Int?, peer: PeerID? = nil) -> ScanResult {
    ScanResult(
      address: address, serviceUUIDs: [BitchatGATT.service],
      serviceData: peer.map { [.init(service: BitchatGATT.service, bytes: $0.bytes)] } ?? [], rssi: rssi)
  }

  private static func second(_ seconds: Double) -> Instant { Instant.zero.advanced(by: .seconds(seconds)) }

  @Test("A mesh node connects to the strongest advertiser first, and to the next one 0.5 s later")
  func strongest() {
    var finder = NeighbourFinder()
    finder.sighted(Self.scanResult(Self.one, rssi: -80), at: .zero)
    finder.sighted(Self.scanResult(Self.other, rssi: -60), at: .zero)
    let first = finder.next(linked: [], peers: [], at: .zero)
    #expect(first == Self.other)
    let early = finder.next(linked: [Self.other], peers: [], at: Self.second(0.4))
    #expect(early == nil)
    #expect(finder.deadline(linked: [Self.other], peers: [], at: Self.second(0.4)) == Self.second(0.5))
    let second = finder.next(linked: [Self.other], peers: [], at: Self.second(0.5))
    #expect(second == Self.one)
  }

  @Test(
    "After a failed attempt a mesh node tries the advertiser that waits longest, and after a link the strongest"
  )
  func fairness() {
    var finder = NeighbourFinder()
    finder.sighted(Self.scanResult(Self.one, rssi: -70), at: .zero)
    var tried: [BluetoothAddress] = []
    for number in 0..<4 {
      let now = Self.second(Double(number) * 11.5 + 1)
      // All advertisers until now are still present.
      finder.sighted(Self.scanResult(Self.one, rssi: -70), at: now)
      for index in 0...number {
        finder.sighted(Self.scanResult(BluetoothAddress(UInt64(100 + index)), rssi: -40), at: now)
      }
      let next = finder.next(linked: [], peers: [], at: now)
      guard let next else { break }
      tried.append(next)
      finder.failed(next, at: now.advanced(by: .seconds(9)))
    }
    // By then the first advertiser may be tried again, and has waited longest.
    #expect(tried == [BluetoothAddress(100), Self.one, BluetoothAddress(101), BluetoothAddress(100)])
    finder.met(BluetoothAddress(100))
    finder.sighted(Self.scanResult(BluetoothAddress(200), rssi: -30), at: Self.second(60))
    let strongest = finder.next(linked: [], peers: [], at: Self.second(60))
    #expect(strongest == BluetoothAddress(200))
  }

  @Test("While a mesh node is not scanning, it does not try an advertiser that was not received for long")
  func notHeard() {
    var finder = NeighbourFinder()
    finder.sighted(Self.scanResult(Self.one, rssi: -60), at: .zero)
    finder.sighted(Self.scanResult(Self.other, rssi: -80), at: Self.second(15))
    finder.isScanning = false
    finder.forget(notHeardSince: Self.second(10))
    let next = finder.next(linked: [], peers: [], at: Self.second(30))
    #expect(next == Self.other && finder.remembered.advertisers == 1)
  }

  @Test(
    "The weakest signal at which a mesh node connects depends on its number of neighbours",
    arguments: [(-90, 0.0), (-91, nil), (-100, nil)] as [(Int, Double?)])
  func weakWithNeighbours(rssi: Int, found: Double?) {
    var finder = NeighbourFinder()
    finder.sighted(Self.scanResult(Self.one, rssi: rssi), at: .zero)
    let next = finder.next(linked: [Self.other], peers: [], at: .zero)
    #expect((next != nil) == (found != nil))
  }

  @Test("A mesh node without neighbours connects at -95 dBm, and after 30 s at -100 dBm")
  func weakAlone() {
    var finder = NeighbourFinder()
    finder.sighted(Self.scanResult(Self.one, rssi: -100), at: .zero)
    let first = finder.next(linked: [], peers: [], at: .zero)
    #expect(first == nil)
    #expect(finder.deadline(linked: [], peers: [], at: .zero) == Self.second(30))
    finder.sighted(Self.scanResult(Self.one, rssi: -100), at: Self.second(30))
    let later = finder.next(linked: [], peers: [], at: Self.second(30))
    #expect(later == Self.one)
    finder.sighted(Self.scanResult(Self.other, rssi: -95), at: Self.second(31))
    let nearer = finder.next(linked: [], peers: [], at: Self.second(31))
    #expect(nearer == Self.other)
    finder.sighted(Self.scanResult(Self.one, rssi: -101), at: Self.second(40))
    let tooWeak = finder.next(linked: [Self.other], peers: [], at: Self.second(40))
    #expect(tooWeak == nil)
  }

  @Test("A mesh node does not connect to a linked peer, recognised by address or by the ID in the scan response")
  func linked() {
    var finder = NeighbourFinder()
    let peer = PeerID(rawValue: 77)
    finder.sighted(Self.scanResult(Self.one, rssi: -60, peer: peer), at: .zero)
    let byAddress = finder.next(linked: [Self.one], peers: [], at: .zero)
    #expect(byAddress == nil)
    let byPeer = finder.next(linked: [], peers: [peer], at: .zero)
    #expect(byPeer == nil)
    let free = finder.next(linked: [], peers: [], at: .zero)
    #expect(free == Self.one)
  }

  @Test("A mesh node pauses 3 s after a lost link, and 15, 30, 60 … up to 300 s after failed attempts")
  func pauses() {
    var finder = NeighbourFinder()
    finder.sighted(Self.scanResult(Self.one, rssi: -60), at: .zero)
    finder.ended(Self.one, at: .zero)
    var now = Instant.zero
    for pause in [3.0, 15, 30, 60, 120, 240, 300, 300] {
      let due = now.advanced(by: .seconds(pause))
      #expect(finder.deadline(linked: [], peers: [], at: now) == due)
      let before = finder.next(linked: [], peers: [], at: due.advanced(by: .milliseconds(-1)))
      #expect(before == nil, "\(pause)")
      finder.sighted(Self.scanResult(Self.one, rssi: -60), at: due)
      let at = finder.next(linked: [], peers: [], at: due)
      #expect(at == Self.one, "\(pause)")
      finder.failed(Self.one, at: due)
      now = due
    }
    finder.met(Self.one)
    let again = finder.next(linked: [], peers: [], at: now.advanced(by: .seconds(1)))
    #expect(again == Self.one)
  }

  @Test("The end of a mesh link does not shorten a longer pause, and the next failures still double it")
  func endAfterward() {
    var finder = NeighbourFinder()
    finder.sighted(Self.scanResult(Self.one, rssi: -60), at: .zero)
    finder.avoid(Self.one, for: .seconds(300), at: .zero)
    finder.ended(Self.one, at: Self.second(2))
    finder.failed(Self.one, at: Self.second(2))
    #expect(finder.deadline(linked: [], peers: [], at: Self.second(2)) == Self.second(300))
    // The pause still counts as deserved.
    finder.loseAll()
    finder.sighted(Self.scanResult(Self.one, rssi: -60), at: Self.second(4))
    #expect(finder.deadline(linked: [], peers: [], at: Self.second(4)) == Self.second(300))

    var other = NeighbourFinder()
    other.sighted(Self.scanResult(Self.one, rssi: -60), at: .zero)
    other.failed(Self.one, at: .zero)
    other.ended(Self.one, at: .zero)
    #expect(other.deadline(linked: [], peers: [], at: .zero) == Self.second(15))
    other.failed(Self.one, at: Self.second(15))
    other.sighted(Self.scanResult(Self.one, rssi: -60), at: Self.second(16))
    other.ended(Self.one, at: Self.second(17))
    #expect(other.deadline(linked: [], peers: [], at: Self.second(17)) == Self.second(45))
    // A pause that has expired does not affect a link that ends later.
    other.sighted(Self.scanResult(Self.one, rssi: -60), at: Self.second(60))
    other.ended(Self.one, at: Self.second(60))
    #expect(other.deadline(linked: [], peers: [], at: Self.second(60)) == Self.second(63))
  }

  @Test("An announce on a link resets the count of failures, but not a pause imposed on the peer")
  func metMeanwhile() {
    var finder = NeighbourFinder()
    finder.sighted(Self.scanResult(Self.one, rssi: -60), at: .zero)
    for _ in 0..<4 { finder.failed(Self.one, at: .zero) }
    finder.met(Self.one)
    finder.ended(Self.one, at: Self.second(10))
    #expect(finder.deadline(linked: [], peers: [], at: Self.second(10)) == Self.second(13))
    finder.avoid(Self.one, for: .seconds(300), at: Self.second(20))
    finder.met(Self.one)
    finder.ended(Self.one, at: Self.second(30))
    finder.sighted(Self.scanResult(Self.one, rssi: -60), at: Self.second(30))
    #expect(finder.deadline(linked: [], peers: [], at: Self.second(30)) == Self.second(320))
  }

  @Test("A mesh node tries an advertiser that was just received before a stronger one not received for over 3 s")
  func justSeen() {
    var finder = NeighbourFinder()
    finder.sighted(Self.scanResult(Self.one, rssi: -50), at: .zero)
    finder.sighted(Self.scanResult(Self.other, rssi: -85), at: Self.second(3.1))
    let first = finder.next(linked: [], peers: [], at: Self.second(3.1))
    #expect(first == Self.other)
    let second = finder.next(linked: [Self.other], peers: [], at: Self.second(4))
    #expect(second == Self.one, "without another candidate it is tried")
  }

  @Test("A mesh node does not try an advertiser that was not received for 12 s until it is received again")
  func absent() {
    var finder = NeighbourFinder()
    finder.sighted(Self.scanResult(Self.one, rssi: -60), at: .zero)
    finder.ended(Self.one, at: Self.second(10))
    let late = finder.next(linked: [], peers: [], at: Self.second(13))
    #expect(late == nil && finder.deadline(linked: [], peers: [], at: Self.second(13)) == nil)
    finder.sighted(Self.scanResult(Self.one, rssi: -60), at: Self.second(14))
    let again = finder.next(linked: [], peers: [], at: Self.second(14))
    #expect(again == Self.one)
  }

  @Test("After a failed attempt a mesh node waits 2 s, and then tries only advertisers received since")
  func seenSince() {
    var finder = NeighbourFinder()
    let gone = (10..<20).map { BluetoothAddress(UInt64($0)) }
    for address in gone { finder.sighted(Self.scanResult(address, rssi: -50), at: .zero) }
    finder.sighted(Self.scanResult(Self.one, rssi: -80), at: .zero)
    let first = finder.next(linked: [], peers: [], at: .zero)
    #expect(first == gone[0])
    finder.failed(gone[0], at: Self.second(5))
    finder.sighted(Self.scanResult(Self.one, rssi: -80), at: Self.second(5.5))
    #expect(finder.deadline(linked: [], peers: [], at: Self.second(5.5)) == Self.second(7))
    let early = finder.next(linked: [], peers: [], at: Self.second(6.9))
    #expect(early == nil)
    let next = finder.next(linked: [], peers: [], at: Self.second(7))
    #expect(next == Self.one)
    finder.met(Self.one)
    let nobody = finder.next(linked: [Self.one], peers: [], at: Self.second(8))
    #expect(nobody == nil, "the others have left")
  }

  @Test("A mesh node's attempt ends after 3 s if its advertiser was not received meanwhile and another one was")
  func outdone() {
    var finder = NeighbourFinder()
    func isOutdone(at seconds: Double, linked: Set<BluetoothAddress> = []) -> Bool {
      finder.isOutdone(Self.one, since: Self.second(1), linked: linked, peers: [], at: Self.second(seconds))
    }
    finder.sighted(Self.scanResult(Self.one, rssi: -50), at: Self.second(0.9))
    finder.sighted(Self.scanResult(Self.other, rssi: -80), at: Self.second(0.9))
    #expect(!isOutdone(at: 4), "the other one was not seen since either")
    finder.sighted(Self.scanResult(Self.other, rssi: -80), at: Self.second(3))
    #expect(!isOutdone(at: 3.9) && isOutdone(at: 4))
    #expect(!isOutdone(at: 4, linked: [Self.other]))
    #expect(!isOutdone(at: 6.1), "the other one may have left by now")
    finder.avoid(Self.other, for: .seconds(60), at: Self.second(4))
    finder.sighted(Self.scanResult(Self.other, rssi: -80), at: Self.second(5))
    #expect(!isOutdone(at: 5), "it is left alone")
    finder.sighted(Self.scanResult(BluetoothAddress(3), rssi: -80), at: Self.second(5))
    #expect(isOutdone(at: 5))
    finder.isScanning = false
    #expect(!isOutdone(at: 5))
    finder.isScanning = true
    finder.sighted(Self.scanResult(Self.one, rssi: -50), at: Self.second(5))
    #expect(!isOutdone(at: 5), "it is there, and only slow")
  }

  @Test("A mesh node remembers at most 256 advertisers and pauses")
  func bounds() {
    var finder = NeighbourFinder()
    for number in 0..<2000 {
      let address = BluetoothAddress(UInt64(number))
      finder.sighted(Self.scanResult(address, rssi: -60), at: Self.second(Double(number)))
      finder.failed(address, at: Self.second(Double(number)))
    }
    #expect(finder.remembered.advertisers == NeighbourFinder.limit)
    #expect(finder.remembered.pauses <= NeighbourFinder.limit)
    #expect(finder.rssi(of: BluetoothAddress(1999)) == -60 && finder.rssi(of: BluetoothAddress(0)) == nil)
  }

  @Test("The loss of the radio clears failures and advertisers, but no pause imposed on a peer")
  func radioAway() {
    var finder = NeighbourFinder()
    for _ in 0..<3 { finder.failed(Self.one, at: .zero) }
    finder.avoid(Self.other, for: .seconds(300), at: .zero)
    finder.sighted(Self.scanResult(Self.one, rssi: -60), at: .zero)
    finder.loseAll()
    let nobody = finder.next(linked: [], peers: [], at: Self.second(1))
    #expect(nobody == nil)
    finder.sighted(Self.scanResult(Self.other, rssi: -50), at: Self.second(1))
    finder.sighted(Self.scanResult(Self.one, rssi: -60), at: Self.second(1))
    let next = finder.next(linked: [], peers: [], at: Self.second(1))
    #expect(next == Self.one)
  }

  @Test("The mesh node with the smaller ID connects at once, and the other waits 5 s, also after a lost link")
  func courtesy() throws {
    let (small, large) = (PeerID(rawValue: 1), PeerID(rawValue: 2))
    func finder(of own: PeerID, meeting peer: PeerID) -> NeighbourFinder {
      var finder = NeighbourFinder()
      finder.own = own
      finder.sighted(Self.scanResult(Self.one, rssi: -60, peer: peer), at: Self.second(10))
      // A repeated scan result does not make it newer.
      finder.sighted(Self.scanResult(Self.one, rssi: -60, peer: peer), at: Self.second(12))
      return finder
    }
    var first = finder(of: small, meeting: large)
    let atOnce = first.next(linked: [], peers: [small], at: Self.second(12))
    #expect(atOnce == Self.one)
    var second = finder(of: large, meeting: small)
    let early = second.next(linked: [], peers: [large], at: Self.second(14.9))
    #expect(early == nil)
    #expect(second.deadline(linked: [], peers: [large], at: Self.second(14.9)) == Self.second(15))
    let late = second.next(linked: [], peers: [large], at: Self.second(15))
    #expect(late == Self.one)
    second.ended(Self.one, at: Self.second(20))
    second.sighted(Self.scanResult(Self.one, rssi: -60, peer: small), at: Self.second(27))
    let again = second.next(linked: [], peers: [large], at: Self.second(27.9))
    #expect(again == nil)
    let later = second.next(linked: [], peers: [large], at: Self.second(28))
    #expect(later == Self.one)
    // An advertiser without a peer ID is not waited for.
    second.sighted(Self.scanResult(Self.other, rssi: -60), at: Self.second(30))
    let stranger = second.next(linked: [Self.one], peers: [large], at: Self.second(30))
    #expect(stranger == Self.other)
  }
}
