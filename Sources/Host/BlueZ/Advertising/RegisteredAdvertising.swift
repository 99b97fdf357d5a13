import DBus
import Loop
import Radio

/// Advertisements that bluetoothd sends for us: one registered D-Bus object for each slot.
@LoopActor
final class RegisteredAdvertising: AdvertisingWay {
  private let bus: BusConnection
  private let scheduler: any Scheduler
  private let words: ShortfallWords
  private let isFromBluetoothd: @LoopActor (MethodCall) -> Bool
  private let onChange: @LoopActor () -> Void
  private let onSlots: @LoopActor () -> Void
  private let onAir: @LoopActor (Advertisement?, Int) -> Void
  private var slotsByNumber: [Int: RegisteredSlot] = [:]
  private var place: Place?
  private var adapter: Adapter?
  /// Number of registrations that bluetoothd is removing.
  private var leaving = 0
  private(set) var slots = 1
  /// Slots with an advertisement that bluetoothd would alter, and that therefore is not sent.
  private var withheld: Set<Int> = []

  /// - Parameters:
  ///   - onChange: called when `problem` may have changed.
  ///   - onSlots: called when `slots` changed.
  ///   - onAir: called when the advertisement that a slot broadcasts has changed.
  init(
    _ bus: BusConnection, scheduler: any Scheduler, words: ShortfallWords,
    isFromBluetoothd: @escaping @LoopActor (MethodCall) -> Bool, onChange: @escaping @LoopActor () -> Void,
    onSlots: @escaping @LoopActor () -> Void, onAir: @escaping @LoopActor (Advertisement?, Int) -> Void
  ) {
    self.bus = bus
    self.scheduler = scheduler
    self.words = words
    self.isFromBluetoothd = isFromBluetoothd
    self.onChange = onChange
    self.onSlots = onSlots
    self.onAir = onAir
  }

  var foreign: Int {
    max(0, (adapter?.activeInstances ?? 0) - slotsByNumber.values.count { $0.registration.isRegistered })
  }

  private var inOrder: [RegisteredSlot] { slotsByNumber.sorted { $0.key < $1.key }.map(\.value) }

  var problem: String? {
    inOrder.lazy.compactMap(\.registration.problem).first ?? (withheld.isEmpty ? nil : words.withheld)
  }

  var shortfall: String? { inOrder.lazy.compactMap { self.words.shortfall(of: $0.advertisement) }.first }

  func owns(_ path: ObjectPath) -> Bool {
    slotsByNumber.values.contains { path.isWithin($0.registration.path) }
  }

  // MARK: Requests

  func show(_ advertisement: Advertisement?, in number: Int) {
    withheld.remove(number)
    guard let advertisement else { return empty(number) }
    if !advertisement.isConnectable, !words.isDegradable {
      withheld.insert(number)
      onChange()
      return empty(number)
    }
    if let slot = slotsByNumber[number] { return slot.show(advertisement) }
    let registration = KeptRegistration(
      .advertisement, BlueZRadio.root.child("adv\(number)"), bus: bus, scheduler: scheduler,
      onRegistered: { [weak self] isRegistered in
        guard let self else { return }
        onAir(isRegistered ? slotsByNumber[number]?.advertisement : nil, number)
        countSlots()
      },
      onChange: { [weak self] in
        self?.onChange()
        self?.countSlots()
      })
    slotsByNumber[number] = RegisteredSlot(
      advertisement, on: bus.objects, registration: registration, isFromBluetoothd: isFromBluetoothd)
    registration.aim(at: place)
  }

  private func empty(_ number: Int) {
    guard let slot = slotsByNumber.removeValue(forKey: number) else { return }
    onAir(nil, number)
    leaving += 1
    slot.close { [weak self] in
      self?.leaving -= 1
      self?.countSlots()
    }
  }

  func aim(at place: Place?) {
    self.place = place
    adapter = nil
    for slot in inOrder { slot.registration.aim(at: place) }
  }

  func renew() {
    for slot in inOrder where slot.advertisement.isConnectable { slot.registration.renew() }
  }

  // MARK: Slots

  func adapterChanged(_ adapter: Adapter) {
    self.adapter = adapter
    countSlots()
  }

  /// Computes `slots`. bluetoothd counts our advertisements as active, so they are counted only while no registration
  /// is under way.
  private func countSlots() {
    guard leaving == 0, let adapter, let free = adapter.supportedInstances,
      !slotsByNumber.values.contains(where: \.registration.isUnderWay)
    else { return }
    let own = slotsByNumber.values.count { $0.registration.isRegistered }
    let room = max(1, free + own)
    guard room != slots else { return }
    slots = room
    onSlots()
  }
}
