import Common
import Loop
import Radio

@testable import Air

/// The delegate of a driver in tests. It converts the driver's events to the form that a test expects.
@LoopActor
final class DriverRecorder: RadioDriverDelegate {
  private var recorders: [ApplicationID: Recorder] = [:]
  private var slots: Set<Int> = []
  private var lastApplication = 0
  var onScanResult: (@LoopActor (ScanResult) -> Void)?
  var onPacket: (@LoopActor (AdvertisingPacket) -> Void)?
  var onStatus: (@LoopActor (RadioStatus) -> Void)?
  private(set) var links: [DriverLink] = []
  private(set) var ended: [LinkID] = []
  private(set) var served: [(ApplicationID, Bool)] = []
  private(set) var uses: [(application: ApplicationID, link: LinkID, use: Use)] = []
  private(set) var rooms: [LinkID] = []
  private(set) var mtus: [LinkID: Int] = [:]
  private(set) var slotChanges = 0
  private(set) var airings: [(slot: Int, advertisement: Advertisement?)] = []

  /// Returns the recorder of a driver. The recorder lives as long as a registration that was made through it.
  static func of(_ driver: any RadioDriver) -> DriverRecorder {
    if let recorder = driver.delegate as? DriverRecorder { return recorder }
    let recorder = DriverRecorder()
    driver.delegate = recorder
    return recorder
  }

  func freeSlot() -> Int {
    let slot = (0...).first { !slots.contains($0) } ?? 0
    slots.insert(slot)
    return slot
  }

  func release(_ slot: Int) { slots.remove(slot) }

  func add(_ recorder: Recorder) -> ApplicationID {
    lastApplication += 1
    recorders[ApplicationID(lastApplication)] = recorder
    return ApplicationID(lastApplication)
  }

  func remove(_ application: ApplicationID) { recorders[application] = nil }

  /// The recorders of the served applications in the order of serving, each once.
  private var all: [Recorder] {
    var seen: Set<ObjectIdentifier> = []
    return recorders.sorted { $0.key.number < $1.key.number }.map(\.value)
      .filter { seen.insert(ObjectIdentifier($0)).inserted }
  }

  func statusChanged(_ status: RadioStatus) { onStatus?(status) }
  func advertisingSlotsChanged() { slotChanges += 1 }
  func onAir(_ advertisement: Advertisement?, in slot: Int) { airings.append((slot, advertisement)) }
  func applicationChanged(_ application: ApplicationID, isServed: Bool) { served.append((application, isServed)) }

  func linkUp(_ link: DriverLink) {
    links.append(link)
    for recorder in all { recorder.hear(.opened(link.id, link.address)) }
  }
  func linkChanged(_ link: LinkID, mtu: Int) {
    mtus[link] = mtu
    for recorder in all { recorder.hear(.changed(link, mtu)) }
  }
  func linkDown(_ link: LinkID) {
    ended.append(link)
    for recorder in all { recorder.hear(.closed(link)) }
  }

  func used(_ application: ApplicationID, by link: LinkID, _ use: Use) { uses.append((application, link, use)) }
  func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID
  ) throws(ATTError) {
    guard let recorder = recorders[application] else { throw .unlikely }
    try recorder.written(value, to: characteristic, on: link)
  }
  func hasRoom(_ link: LinkID) { rooms.append(link) }

  func heard(_ scanResult: ScanResult) { onScanResult?(scanResult) }
  func forgot(_ address: BluetoothAddress) {}
  func heard(_ packet: AdvertisingPacket) { onPacket?(packet) }
}

/// An application that a driver serves for a test, until this object is released.
@LoopActor
final class TestServer {
  let number: ApplicationID
  private let driver: any RadioDriver
  private let registration: Registration

  init(_ driver: any RadioDriver, _ application: GATTApplication, _ recorder: Recorder) {
    let delegate = DriverRecorder.of(driver)
    let number = delegate.add(recorder)
    self.driver = driver
    self.number = number
    driver.serve(application, as: number)
    registration = Registration {
      delegate.remove(number)
      driver.stopServing(number)
    }
  }

  @discardableResult
  func notify(_ value: [UInt8], of characteristic: CharacteristicID, to link: LinkID) -> Delivery {
    notify(value, of: characteristic, to: .link(link))
  }

  @discardableResult
  func notify(_ value: [UInt8], of characteristic: CharacteristicID, to recipients: Recipients) -> Delivery {
    driver.notify(value, of: characteristic, in: number, to: recipients)
  }

  func disconnect(_ link: LinkID) { driver.cut(link) }

  func close() { registration.cancel() }
}

extension RadioDriver {
  func serve(_ application: GATTApplication, delegate: Recorder) -> TestServer {
    TestServer(self, application, delegate)
  }

  /// Advertises in the first free slot.
  func advertise(_ advertisement: Advertisement) -> Registration {
    let recorder = DriverRecorder.of(self)
    let slot = recorder.freeSlot()
    advertise(advertisement, in: slot)
    return Registration {
      recorder.release(slot)
      self.advertise(nil, in: slot)
    }
  }

  /// Starts a scan, which replaces the present one; an empty list of services means every advertiser.
  func scan(for services: [BluetoothUUID], _ handler: @escaping @LoopActor (ScanResult) -> Void) -> Registration {
    let recorder = DriverRecorder.of(self)
    recorder.onScanResult = handler
    listen(Listening(services: Set(services)))
    return Registration {
      recorder.onScanResult = nil
      self.listen(nil)
    }
  }

  func packets(_ handler: @escaping @LoopActor (AdvertisingPacket) -> Void) -> Registration {
    let recorder = DriverRecorder.of(self)
    recorder.onPacket = handler
    listen(Listening(services: nil, patterns: []))
    return Registration {
      recorder.onPacket = nil
      self.listen(nil)
    }
  }

  func onStatus(_ handler: @escaping @LoopActor (RadioStatus) -> Void) -> Registration {
    let recorder = DriverRecorder.of(self)
    recorder.onStatus = handler
    return Registration { recorder.onStatus = nil }
  }
}
