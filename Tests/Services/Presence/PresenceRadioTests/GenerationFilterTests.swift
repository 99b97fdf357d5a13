import Common
import Radio
import Testing
import Thali

@testable import PresenceRadio

@Suite struct GenerationFilterTests {
  private static let device = DeviceAddress(0x0011_2233_4455)
  private static let one = BluetoothAddress(1)
  private static let two = BluetoothAddress(2)

  private static func at(_ seconds: Int) -> Instant { Instant.zero.advanced(by: .seconds(seconds)) }

  @Test("A new generation of beacons is reported at once, and the same one again after 10 s")
  func repetition() {
    var memory = GenerationFilter()
    #expect(memory.receive(Self.device, 7, from: Self.one, at: Self.at(0)) == 7)
    #expect(memory.receive(Self.device, 7, from: Self.two, at: Self.at(9)) == nil)
    #expect(memory.receive(Self.device, 8, from: Self.two, at: Self.at(9)) == 8)
    #expect(memory.receive(Self.device, 8, from: Self.two, at: Self.at(18)) == nil)
    #expect(memory.receive(Self.device, 8, from: Self.two, at: Self.at(19)) == 8)
  }

  @Test("An advertisement without a generation counts as new when its sender's address changes")
  func literal() {
    var memory = GenerationFilter()
    #expect(memory.receive(Self.device, nil, from: Self.one, at: Self.at(0)) == 0)
    #expect(memory.receive(Self.device, nil, from: Self.one, at: Self.at(1)) == nil)
    #expect(memory.receive(Self.device, nil, from: Self.two, at: Self.at(2)) == 1)
    #expect(memory.receive(Self.device, nil, from: Self.two, at: Self.at(3)) == nil)
  }

  @Test("Of a flood of senders at most 100 are reported in a second, and 200 are remembered")
  func flood() {
    var memory = GenerationFilter()
    var reported = 0
    for number in 0..<1000 {
      let device = DeviceAddress(UInt64(number + 1))
      if memory.receive(device, 0, from: Self.one, at: Self.at(0)) != nil { reported += 1 }
    }
    #expect(reported == 100 && memory.tooFast == 900)
    for second in 1...10 {
      for number in 0..<100 {
        _ = memory.receive(DeviceAddress(UInt64(second * 1000 + number)), 0, from: Self.one, at: Self.at(second))
      }
    }
    #expect(memory.count == 200)
  }
}
