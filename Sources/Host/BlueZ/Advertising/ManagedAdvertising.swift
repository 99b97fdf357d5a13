import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// Advertisements that the kernel sends exactly as encoded, through the management socket: one instance of the
/// controller for each slot.
@LoopActor
final class ManagedAdvertising: AdvertisingWay {
  let socket: ManagementSocket
  private(set) var numbers = InstanceNumbers()
  private let scheduler: any Scheduler
  private let commands: @LoopActor () -> AdapterCommands?
  private let isConnectableByUs: @LoopActor () -> Bool
  private let onChange: @LoopActor () -> Void
  private let onSlots: @LoopActor () -> Void
  let onAir: @LoopActor (Advertisement?, Int) -> Void
  private var slotsByNumber: [Int: ManagedSlot] = [:]
  private var place: Place?
  /// Index of the controller whose instances `numbers` describes.
  private var numberedIndex: UInt16?
  private var events: Registration?
  /// The controller's settings that the kernel reported last.
  private var settings: ControllerSettings = []

  /// - Parameters:
  ///   - commands: commands that an operator can type for the adapter in use; nil without an adapter.
  ///   - isConnectableByUs: whether this driver has made the adapter connectable.
  ///   - onChange: called when `problem` may have changed.
  ///   - onSlots: called when `slots` may have changed.
  ///   - onAir: called when the advertisement that a slot broadcasts has changed.
  init(
    _ socket: ManagementSocket, scheduler: any Scheduler,
    commands: @escaping @LoopActor () -> AdapterCommands?, isConnectableByUs: @escaping @LoopActor () -> Bool,
    onChange: @escaping @LoopActor () -> Void,
    onSlots: @escaping @LoopActor () -> Void, onAir: @escaping @LoopActor (Advertisement?, Int) -> Void
  ) {
    self.socket = socket
    self.scheduler = scheduler
    self.commands = commands
    self.isConnectableByUs = isConnectableByUs
    self.onChange = onChange
    self.onSlots = onSlots
    self.onAir = onAir
    events = socket.onEvent { [weak self] event, index in self?.heard(event, index) }
  }

  var slots: Int { numbers.slots }

  var foreign: Int { numbers.taken.count }

  private var inOrder: [ManagedSlot] { slotsByNumber.sorted { $0.key < $1.key }.map(\.value) }

  var problem: String? { inOrder.lazy.compactMap(\.problem).first }

  var shortfall: String? {
    guard settings.contains(.connectable), !isConnectableByUs(), inOrder.contains(where: \.isBroadcast) else {
      return nil
    }
    guard let adapter = commands() else { return nil }
    let who =
      settings.contains(.discoverable)
      ? "\(adapter.name) is discoverable: \(adapter.hide), while earshotd is stopped."
      : "a program has made \(adapter.name) connectable: \(adapter.closeToAll), while earshotd is stopped."
    return
      "Non-connectable advertisements are sent as connectable and from the adapter's own address, because \(who)"
  }

  func owns(_ path: ObjectPath) -> Bool { false }

  // MARK: Requests

  func show(_ advertisement: Advertisement?, in number: Int) {
    guard let payload = advertisement.flatMap({ ManagedSlot.Payload($0) }) else {
      slotsByNumber[number]?.show(nil)
      return
    }
    let slot = slotsByNumber[number] ?? makeSlot(number)
    slot.show(payload)
  }

  private func makeSlot(_ number: Int) -> ManagedSlot {
    let slot = ManagedSlot(number, of: self, scheduler: scheduler, onChange: onChange)
    slotsByNumber[number] = slot
    slot.aim(at: place)
    return slot
  }

  func aim(at place: Place?) {
    if let index = place?.index, index != numberedIndex {
      numbers = InstanceNumbers()
      numberedIndex = index
      settings = []
    }
    self.place = place
    for slot in inOrder { slot.aim(at: place) }
    if let index = place?.index {
      socket.call(ReadControllerInformation(), on: index) { [weak self] result in
        if case .success(let information) = result, self?.place?.index == index { self?.take(information.current) }
      }
      socket.call(ReadAdvertisingFeatures(), on: index) { [weak self] result in
        if case .success(let features) = result, self?.place?.index == index { self?.learn(features) }
      }
    }
    onSlots()
  }

  func renew() {
    for slot in inOrder where slot.isConnectable { slot.renew() }
  }

  // MARK: Settings

  /// Stores the settings of the adapter. While the adapter is connectable, the kernel sends all advertisements from the
  /// adapter's own address. When it is no longer connectable, this creates non-connectable advertisements again, with
  /// an address of their own.
  private func take(_ settings: ControllerSettings) {
    let wasConnectable = self.settings.contains(.connectable)
    self.settings = settings
    if wasConnectable, !settings.contains(.connectable) {
      for slot in inOrder where slot.isBroadcast { slot.renew() }
    }
    onChange()
  }

  // MARK: Numbers

  /// Handles the controller's report of its instances.
  func learn(_ features: AdvertisingFeatures) {
    numbers.limit = features.instanceLimit
    numbers.takesTurns = !features.flags.contains(.secondary1M)
    onSlots()
  }

  func number(for slot: Int) -> UInt8? { numbers.number(for: slot) }

  func free(_ slot: Int) { numbers.free(slot) }

  func adapterChanged(_ adapter: Adapter) {
    guard adapter.activeInstances != numbers.active else { return }
    numbers.active = adapter.activeInstances
    numbersChanged()
  }

  private func heard(_ event: ManagementEvent, _ index: UInt16) {
    guard index == numberedIndex else { return }
    switch event {
    case .newSettings(let settings): take(settings)
    case .advertisingAdded(let instance):
      numbers.added(instance)
      numbersChanged()
    case .advertisingRemoved(let instance):
      numbers.removed(instance)
      for slot in inOrder { slot.removed(instance) }
      numbersChanged()
    default: break
    }
  }

  /// Moves our instances whose numbers another program may use to other numbers.
  private func numbersChanged() {
    for number in numbers.lost {
      numbers.free(number)
      slotsByNumber[number]?.taken()
    }
    onSlots()
  }
}

/// The numbers of a controller's advertising instances: ours, those of other programs, and the free ones.
///
/// bluetoothd allocates upwards from 1 and does not know other programs' instances; ours are allocated downwards from
/// the maximum. If another program adds an instance under one of our numbers, it replaces ours without notice. A number
/// that another program may use is therefore given up. Facts: bluez.md section 6.
struct InstanceNumbers: Hashable, Sendable {
  /// Number of instances of the controller; nil until it is known.
  var limit: UInt8?
  /// Whether the kernel rotates the instances, two seconds each, because the controller has a single advertising set.
  var takesTurns = false
  /// Number of bluetoothd's instances, as bluetoothd reports it.
  var active = 0
  /// Instances of other programs, from the kernel's events.
  private var seen: Set<UInt8> = []
  /// The number of this driver's advertising instance in each slot.
  private(set) var own: [Int: UInt8] = [:]

  init() {}

  /// Records an advertising instance that another program added.
  mutating func added(_ instance: UInt8) { seen.insert(instance) }

  /// Records that another program removed an instance.
  mutating func removed(_ instance: UInt8) { seen.remove(instance) }

  /// Numbers that other programs use: those from events, and if bluetoothd reports more instances, the lowest other
  /// numbers.
  var taken: Set<UInt8> {
    var taken = seen
    var number: UInt8 = 1
    while taken.count < active, number < .max {
      taken.insert(number)
      number += 1
    }
    return taken
  }

  /// Number of advertisements that we can have at one time. With rotated instances it is one, whose data is replaced.
  var slots: Int {
    guard let limit, !takesTurns else { return 1 }
    return max(1, Int(limit) - taken.count)
  }

  /// Assigns an instance number to a slot: its present number if no other program uses that, or else the highest free
  /// number.
  ///
  /// - Returns: nil if no number is free.
  mutating func number(for slot: Int) -> UInt8? {
    let taken = taken
    if let number = own[slot], !taken.contains(number) { return number }
    own[slot] = nil
    guard let limit, limit > 0 else { return nil }
    own[slot] = (1...limit).reversed().first { !taken.contains($0) && !own.values.contains($0) }
    return own[slot]
  }

  /// The slots whose instance numbers may now be used by another program, too.
  var lost: [Int] {
    let taken = taken
    return own.filter { taken.contains($0.value) }.map(\.key).sorted()
  }

  /// Frees the instance number of a slot.
  mutating func free(_ slot: Int) { own[slot] = nil }
}
