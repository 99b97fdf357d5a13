import Common
import Radio
import Testing

@testable import Verifier

@Suite("Peers whose transfers failed recently")
struct LostPlacesTests {
  @Test("A peer whose transfer failed is remembered for 5 min after its last failure")
  func memory() {
    var places = FailedSessionPeers()
    let (peer, other) = (BluetoothAddress(1), BluetoothAddress(2))
    places.note(peer, at: .zero)
    places.note(peer, at: .zero.advanced(by: .seconds(100)))
    #expect(places.contains(peer, at: .zero.advanced(by: .seconds(400) - .nanoseconds(1))))
    #expect(!places.contains(peer, at: .zero.advanced(by: .seconds(400))))
    #expect(!places.contains(other, at: .zero))
  }

  @Test("At most 256 failed peers are remembered, and the one remembered longest is forgotten")
  func limit() {
    var places = FailedSessionPeers()
    for number in 1...257 as ClosedRange<UInt64> {
      places.note(BluetoothAddress(number), at: .zero.advanced(by: .milliseconds(Int(number))))
    }
    #expect(places.count == 256)
    #expect(!places.contains(BluetoothAddress(1), at: .zero) && places.contains(BluetoothAddress(2), at: .zero))
  }
}
