import Bytes
import HCI

/// A kernel's parameters for new links of each controller. It is stricter than a real one, which accepts any value of
/// a parameter and skips unknown parameters.
public struct FakeLinkSettings: Sendable {
  public struct Controller: Hashable, Sendable {
    /// Values by parameter number: some of the parameters of kernel 6.1.
    public var parameters: [UInt16: [UInt8]] = [
      0x0000: [0, 0], 0x0017: [24, 0], 0x0018: [40, 0], 0x0019: [0, 0], 0x001A: [42, 0], 0x001F: [1],
    ]
    public var supported: UInt32 = 0x7FFF
    public var configurable: UInt32 = 0x79FE
    public var selected: UInt32 = 0x07FF
    public var isPowered = true

    /// Two bytes of a parameter as a number.
    public subscript(parameter: UInt16) -> Int? {
      guard let bytes = parameters[parameter], bytes.count == 2 else { return nil }
      return Int(bytes[0]) | Int(bytes[1]) << 8
    }

    /// Minimum and maximum interval, latency and timeout.
    public var links: [Int?] { [self[0x17], self[0x18], self[0x19], self[0x1A]] }
  }

  private var controllers: [UInt16: Controller] = [:]
  private var gone: Set<UInt16> = []
  /// The state of a new controller.
  public var fresh = Controller()
  /// Each written parameter and set of PHYs, in order: `0: 17=9 18=12`, `0: phy 1fff`.
  public private(set) var written: [String] = []

  public init() {}

  public subscript(index: UInt16) -> Controller {
    get { controllers[index] ?? fresh }
    set { controllers[index] = newValue }
  }

  /// Removes a controller.
  public mutating func remove(_ index: UInt16) {
    controllers[index] = nil
    gone.insert(index)
  }

  /// Inserts a removed controller, in its initial state.
  public mutating func putBack(_ index: UInt16) { gone.remove(index) }

  /// Powers a controller off and on: the kernel selects the PHYs again, and keeps the parameters.
  public mutating func powerCycle(_ index: UInt16) { self[index].selected = fresh.selected }

  func isGone(_ index: UInt16) -> Bool { gone.contains(index) }

  /// Carries out a command about links; returns nil for any other.
  mutating func answer(_ packet: ManagementPacket) -> ManagementEvent? {
    var controller = self[packet.index]
    var reply = ByteWriter()
    var status = ManagementStatus.success
    switch packet.code {
    case ReadDefaultSystemConfiguration.opcode:
      guard packet.parameters.isEmpty else { return .commandStatus(opcode: packet.code, .invalidParameters) }
      for (parameter, value) in controller.parameters.sorted(by: { $0.key < $1.key }) {
        reply.u16le(parameter)
        reply.u8(UInt8(value.count))
        reply.append(value)
      }
    case SetDefaultSystemConfiguration.opcode: status = Self.set(&controller, packet.parameters) ?? .invalidParameters
    case GetPHYConfiguration.opcode:
      guard packet.parameters.isEmpty else { return .commandStatus(opcode: packet.code, .invalidParameters) }
      for value in [controller.supported, controller.configurable, controller.selected] { reply.u32le(value) }
    case SetPHYConfiguration.opcode: status = Self.select(&controller, packet.parameters) ?? .invalidParameters
    default: return nil
    }
    guard status == .success else { return .commandStatus(opcode: packet.code, status) }
    note(packet, controller)
    self[packet.index] = controller
    return .commandComplete(opcode: packet.code, .success, reply.bytes)
  }

  private mutating func note(_ packet: ManagementPacket, _ controller: Controller) {
    if packet.code == SetPHYConfiguration.opcode {
      written.append("\(packet.index): phy \(String(controller.selected, radix: 16))")
    } else if packet.code == SetDefaultSystemConfiguration.opcode {
      let changed = stride(from: 0, to: packet.parameters.count, by: 5).map { offset in
        let number = UInt16(packet.parameters[offset])
        return "\(String(number, radix: 16))=\(controller[number] ?? -1)"
      }
      written.append("\(packet.index): \(changed.joined(separator: " "))")
    }
  }

  private static func set(_ controller: inout Controller, _ bytes: [UInt8]) -> ManagementStatus? {
    var reader = ByteReader(bytes)
    guard !reader.isAtEnd else { return nil }
    while !reader.isAtEnd {
      guard let number = try? reader.u16le(), let length = try? reader.u8(),
        let value = try? reader.bytes(Int(length)), controller.parameters[number]?.count == value.count
      else { return nil }
      controller.parameters[number] = Array(value)
    }
    // Core 5.4 Vol 4 Part E 7.8.12.
    guard let shortest = controller[0x17], let longest = controller[0x18], let latency = controller[0x19],
      let timeout = controller[0x1A], shortest >= 6, shortest <= longest, longest <= 3200, latency <= 499,
      (10...3200).contains(timeout), timeout * 4 > (1 + latency) * longest
    else { return nil }
    return .success
  }

  private static func select(_ controller: inout Controller, _ bytes: [UInt8]) -> ManagementStatus? {
    var reader = ByteReader(bytes)
    guard let selected = try? reader.u32le(), reader.isAtEnd else { return nil }
    let fixed = controller.supported & ~controller.configurable
    guard selected & ~controller.supported == 0, selected & fixed == fixed else { return nil }
    guard controller.isPowered else { return .rejected }
    controller.selected = selected
    return .success
  }
}
