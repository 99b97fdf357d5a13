import Bytes
import Glibc
import HCI
import Loop
import Radio

/// The kernel's end of a management socket: it stores the advertising instances and the settings of its controllers,
/// and sends events about changes by other programs.
@LoopActor
public final class FakeKernel {
  public struct Instance: Hashable, Sendable {
    public var flags: AdvertisingFlags
    /// Interval in 0.625 ms; nil for the kernel's default.
    public var interval: UInt32?
    public var data: [UInt8] = []
    public var scanResponse: [UInt8] = []
    /// Whether the controller sends the advertisement. It does not before the instance has data, nor after a peer has
    /// connected.
    public var isOnAir = false
    /// The random address that it is sent from; nil for the adapter's own.
    public var address: Int?
    var hasData = false

    public init(
      flags: AdvertisingFlags, interval: UInt32? = nil, data: [UInt8] = [], scanResponse: [UInt8] = [],
      isOnAir: Bool = false, address: Int? = nil
    ) {
      self.address = address
      self.flags = flags
      self.interval = interval
      self.data = data
      self.scanResponse = scanResponse
      self.isOnAir = isOnAir
      hasData = isOnAir
    }
  }

  /// The instances by controller and number.
  public private(set) var instances: [UInt16: [UInt8: Instance]] = [:]
  /// Number of times that an instance with each number was added. Each new instance has another random address.
  public private(set) var made: [UInt8: Int] = [:]
  /// The received commands, as `opcode controller`: `0x3f 0`.
  public let commands = Mailbox<String>()
  private let lookout = Lookout()
  /// Called with an instance whose data was replaced.
  public var onData: @LoopActor (Instance) -> Void = { _ in }
  /// The statuses with which the next commands that add something are refused, in order.
  public var refusals: [ManagementStatus] = []
  /// The statuses with which the next commands of an opcode are refused, in order.
  public var refusalsByOpcode: [UInt16: [ManagementStatus]] = [:]
  /// Whether the kernel reads management commands without answering them.
  public var isSilent = false
  /// Opcodes of commands that the kernel carries out without an answer.
  public var silentOpcodes: Set<UInt16> = []
  /// Opcode of commands that are held until `release`; nil for none.
  public var heldOpcode: UInt16?
  private var held: [ManagementPacket] = []
  /// The settings of each controller; powered and LE by default.
  public private(set) var settings: [UInt16: ControllerSettings] = [:]
  /// The advertisement monitors of each controller, by handle.
  public private(set) var monitors: [UInt16: [UInt16: [AdvertisingPattern]]] = [:]
  /// Whether a program discovers.
  public var isDiscovering = false
  /// Called when a program has stopped the discovery for all programs, with its address types.
  public var onStopDiscovery: @LoopActor (UInt8) -> Void = { _ in }
  private var lastHandle: UInt16 = 0
  private var lastAddress = 0
  /// The parameters of new links of each controller.
  public var linkSettings = FakeLinkSettings()
  public var features = AdvertisingFeatures(
    flags: [.connectable, .secondary1M, .intervals, .scanResponse], dataLimit: 31, scanResponseLimit: 31,
    instanceLimit: 3,
    instances: [])
  /// The socket end that the tested `ManagementSocket` uses.
  public let socket: HCISocket

  private let own: Int32
  private var watch: Registration?

  public init() {
    var ends: [Int32] = [-1, -1]
    let kind = Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    socketpair(AF_UNIX, kind, 0, &ends)
    socket = HCISocket(owning: ends[0])
    own = ends[1]
    watch = EventLoop.shared.watch(own, for: .readable) { [weak self] _ in self?.readable() }
  }

  /// Closes its end; the other end finds the socket broken.
  public func close() {
    guard watch != nil else { return }
    watch = nil
    _ = Glibc.close(own)
  }

  /// The instances of a controller that are being sent.
  public func onAir(_ index: UInt16 = 0) -> [UInt8: Instance] { instances[index, default: [:]].filter(\.value.isOnAir) }

  /// Stops all advertising of the controller without an event, as when a peer has connected, or the power was off.
  public func silence(_ index: UInt16 = 0) {
    for instance in instances[index, default: [:]].keys { instances[index]?[instance]?.isOnAir = false }
  }

  /// Removes all instances as another program, like bluetoothd at its start.
  public func clear(_ index: UInt16 = 0) {
    let removed = instances.removeValue(forKey: index) ?? [:]
    for instance in removed.keys.sorted() { tell(.advertisingRemoved(instance: instance), of: index) }
  }

  /// Changes the settings of a controller as another program.
  public func set(_ settings: ControllerSettings, of index: UInt16 = 0) {
    self.settings[index] = settings
    tell(.newSettings(settings), of: index)
  }

  /// Removes all monitors as another program, like bluetoothd at its start.
  public func clearMonitors(of index: UInt16 = 0) {
    for handle in (monitors.removeValue(forKey: index) ?? [:]).keys.sorted() {
      tell(.monitorRemoved(handle), of: index)
    }
  }

  /// Makes the controller receive an advertising packet. Patterns of monitors are not applied: with any monitor each
  /// packet is reported.
  public func hear(
    _ data: [UInt8], from address: BluetoothAddress, flags: UInt32 = 1 << 2, rssi: Int8? = -60, on index: UInt16 = 0
  ) {
    let report = AdvertisingReport(address: address, kind: .randomAddress, rssi: rssi, flags: flags, data: data)
    if isDiscovering {
      tell(.deviceFound(report), of: index)
    } else if monitors[index]?.isEmpty == false {
      tell(.monitoredDeviceFound(MonitoredReport(monitor: 0, report: report)), of: index)
    }
  }

  /// The data of another program's instance.
  public static let foreignData: [UInt8] = [2, 1, 4]

  /// Adds an instance under a number as another program, in place of the present one. The kernel sends no event then.
  public func take(_ number: UInt8, of index: UInt16 = 0) {
    instances[index, default: [:]][number] = Instance(flags: .connectable, data: Self.foreignData, isOnAir: true)
  }

  public func tell(_ event: ManagementEvent, of index: UInt16 = 0) {
    send(event.packet(of: index).bytes)
  }

  public func send(_ bytes: [UInt8]) {
    _ = Glibc.send(own, bytes, bytes.count, Int32(MSG_NOSIGNAL))
  }

  /// Carries out the held commands, and holds no more.
  public func release() {
    heldOpcode = nil
    let packets = held
    held = []
    for packet in packets { answer(packet) }
  }

  /// Waits until `condition` holds, checking it after each command.
  public func until(_ condition: @escaping @LoopActor () -> Bool) async throws {
    try await lookout.until(condition)
  }

  // MARK: Commands

  private func readable() {
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = recv(own, &buffer, buffer.count, Int32(MSG_DONTWAIT))
      if count == 0 { close() }
      guard count > 0 else { return }
      guard let packet = try? ManagementPacket(reading: Array(buffer.prefix(count))) else { continue }
      if packet.code == heldOpcode { held.append(packet) } else if !isSilent { answer(packet) }
      let command = "0x\(String(packet.code, radix: 16)) \(packet.index)"
      commands.put(command)
      lookout.tell(command)
    }
  }

  private func answer(_ packet: ManagementPacket) {
    let adds = [AddAdvertising.opcode, AddExtendedAdvertisingParameters.opcode, AddExtendedAdvertisingData.opcode]
    if adds.contains(packet.code), !refusals.isEmpty {
      return tell(.commandStatus(opcode: packet.code, refusals.removeFirst()), of: packet.index)
    }
    guard !linkSettings.isGone(packet.index) else {
      return tell(.commandStatus(opcode: packet.code, .invalidIndex), of: packet.index)
    }
    if let refusal = refusalsByOpcode[packet.code]?.first {
      refusalsByOpcode[packet.code]?.removeFirst()
      return tell(.commandStatus(opcode: packet.code, refusal), of: packet.index)
    }
    if let answer = linkSettings.answer(packet) {
      if !silentOpcodes.contains(packet.code) { tell(answer, of: packet.index) }
      return
    }
    guard let reply = try? carryOut(packet) else {
      return tell(.commandStatus(opcode: packet.code, .invalidParameters), of: packet.index)
    }
    tell(.commandComplete(opcode: packet.code, .success, reply), of: packet.index)
  }

  private struct Refused: Error {}

  private func carryOut(_ packet: ManagementPacket) throws -> [UInt8] {
    var reader = ByteReader(packet.parameters)
    switch packet.code {
    case ReadAdvertisingFeatures.opcode:
      var writer = ByteWriter()
      writer.u32le(features.flags.rawValue)
      writer.append([features.dataLimit, features.scanResponseLimit, features.instanceLimit])
      // Like kernels 6.1 and 6.12: an instance whose number exceeds the count of instances is left out.
      let numbers = instances[packet.index, default: [:]].keys.sorted()
      let listed = numbers.filter { Int($0) <= numbers.count }
      writer.u8(UInt8(listed.count))
      writer.append(listed)
      return writer.bytes
    case RemoveAdvertising.opcode:
      let number = try reader.u8()
      guard instances[packet.index]?.removeValue(forKey: number) != nil else { throw Refused() }
      return [number]
    case AddAdvertising.opcode, AddExtendedAdvertisingParameters.opcode:
      let number = try reader.u8()
      guard (1...features.instanceLimit).contains(number) else { throw Refused() }
      var instance = Instance(flags: AdvertisingFlags(rawValue: try reader.u32le()))
      // Observed on kernel 6.1: a non-connectable instance has an address of its own, unless the adapter is
      // connectable.
      if !instance.flags.contains(.connectable), settings[packet.index]?.contains(.connectable) != true {
        lastAddress += 1
        instance.address = lastAddress
      }
      guard features.flags.isSuperset(of: instance.flags) else { throw Refused() }
      _ = try reader.u32le()
      made[number, default: 0] += 1
      if packet.code == AddExtendedAdvertisingParameters.opcode {
        // Like kernel 6.1: only one instance may be without data at a time.
        guard instances[packet.index]?.values.allSatisfy({ $0.hasData }) != false else { throw Refused() }
        instance.interval = try reader.u32le()
        guard try reader.u32le() == instance.interval, try reader.u8() == 127 else { throw Refused() }
        instances[packet.index, default: [:]][number] = instance
        return [number, 127, features.dataLimit, features.scanResponseLimit]
      }
      instances[packet.index, default: [:]][number] = instance
      return try fill(number, packet.index, &reader)
    case AddExtendedAdvertisingData.opcode:
      let number = try reader.u8()
      let answer = try fill(number, packet.index, &reader)
      if let instance = instances[packet.index]?[number] { onData(instance) }
      return answer
    case ReadControllerInformation.opcode:
      guard packet.parameters.isEmpty else { throw Refused() }
      var writer = ByteWriter()
      writer.append([0, 0, 0, 0, 0xAA, 0, 0x0B, 0x5D, 0x05])
      writer.u32le(0x0001_BEFF)
      writer.u32le((settings[packet.index] ?? [.powered, .lowEnergy]).rawValue)
      writer.append([UInt8](repeating: 0, count: 3 + 249 + 11))
      return writer.bytes
    case SetConnectable.opcode:
      var current = settings[packet.index] ?? [.powered, .lowEnergy]
      if try reader.u8() == 1 { current.insert(.connectable) } else { current.remove(.connectable) }
      try reader.finish()
      settings[packet.index] = current
      var writer = ByteWriter()
      writer.u32le(current.rawValue)
      tell(.newSettings(current), of: packet.index)
      return writer.bytes
    case StopDiscovery.opcode:
      let types = try reader.u8()
      try reader.finish()
      guard isDiscovering else { throw Refused() }
      onStopDiscovery(types)
      return [types]
    case AddAdvertisementPatternsMonitor.opcode: return try addMonitor(packet.index, &reader)
    case RemoveAdvertisementMonitor.opcode:
      // The handle 0 is refused, because a real kernel would remove the monitors of all programs.
      let handle = try reader.u16le()
      try reader.finish()
      guard monitors[packet.index]?.removeValue(forKey: handle) != nil else { throw Refused() }
      return packet.parameters
    default: throw Refused()
    }
  }

  private func addMonitor(_ index: UInt16, _ reader: inout ByteReader) throws -> [UInt8] {
    let count = Int(try reader.u8())
    guard (1...AdvertisingPattern.limit).contains(count) else { throw Refused() }
    var patterns: [AdvertisingPattern] = []
    for _ in 0..<count {
      let (type, offset, length) = (try reader.u8(), try reader.u8(), Int(try reader.u8()))
      let value = Array(try reader.bytes(AdvertisingData.limit))
      guard AdvertisingPattern.isValid(offset: offset, count: length), value.dropFirst(length).allSatisfy({ $0 == 0 })
      else { throw Refused() }
      patterns.append(AdvertisingPattern(type: type, offset: offset, bytes: Array(value.prefix(length))))
    }
    try reader.finish()
    guard Set(patterns).count == count else { throw Refused() }
    lastHandle += 1
    monitors[index, default: [:]][lastHandle] = patterns
    return [UInt8(truncatingIfNeeded: lastHandle), UInt8(truncatingIfNeeded: lastHandle >> 8)]
  }

  private func fill(_ number: UInt8, _ index: UInt16, _ reader: inout ByteReader) throws -> [UInt8] {
    guard var instance = instances[index]?[number] else { throw Refused() }
    let (data, scanResponse) = (Int(try reader.u8()), Int(try reader.u8()))
    guard data <= features.dataLimit, scanResponse <= features.scanResponseLimit else { throw Refused() }
    // A kernel accepts a scan response that was not requested, and the controller then refuses or ignores it.
    guard scanResponse == 0 || !instance.flags.isDisjoint(with: [.connectable, .scanResponse]) else { throw Refused() }
    instance.data = Array(try reader.bytes(data))
    instance.scanResponse = Array(try reader.bytes(scanResponse))
    try reader.finish()
    instance.isOnAir = true
    instance.hasData = true
    instances[index]?[number] = instance
    return [number]
  }
}
