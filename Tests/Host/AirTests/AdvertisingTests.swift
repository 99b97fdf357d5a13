import Common
import Loop
import Radio
import Testing

@testable import Air

@Suite struct AdvertisingTests {
  @LoopActor
  private final class Scanner {
    var scanResults: [ScanResult] = []
    var registration: Registration?
    var names: [String] { scanResults.compactMap(\.localName) }

    init(_ radio: any RadioDriver, for services: [BluetoothUUID] = [service]) {
      registration = radio.scan(for: services) { [weak self] in self?.scanResults.append($0) }
    }
  }

  @LoopActor
  private final class Scene {
    let time = VirtualTime()
    let air: AirSpace
    let advertiser: AirRadio
    let observer: AirRadio

    init(seed: UInt64 = 1) {
      air = AirSpace(scheduler: time, seed: seed)
      advertiser = air.addNode()
      observer = air.addNode()
    }
  }

  @Test(
    "A scanner gets an advertiser within one interval of scan and advertising, and then once a second",
    arguments: [20, 100, 1280], [true, false])
  func firstScanResult(milliseconds: Int, scanFirst: Bool) async {
    await onLoop {
      for seed in UInt64(1)...20 {
        let scene = Scene(seed: seed)
        var advertisement = advertisement()
        advertisement.interval = .milliseconds(milliseconds)
        var scanner = scanFirst ? Scanner(scene.observer) : nil
        let registration = scene.advertiser.advertise(advertisement)
        if scanner == nil {
          scene.time.advance(by: .milliseconds(3333))
          scanner = Scanner(scene.observer)
        }
        #expect(scanner?.scanResults.isEmpty == true)
        scene.time.advance(by: .milliseconds(milliseconds))
        #expect(scanner?.scanResults.count == 1)
        scene.time.advance(by: .seconds(10))
        // Reports are limited to one a second, so each of the events at 1280 ms is reported.
        #expect((milliseconds == 1280 ? 8...9 : 10...11).contains(scanner?.scanResults.count ?? 0))
        registration.cancel()
      }
    }
  }

  @Test("A simulated scan result contains the fields of advertising data and scan response, each of at most 31 bytes")
  func content() async {
    await onLoop {
      let scene = Scene()
      let scanner = Scanner(scene.observer)
      let registration = scene.advertiser.advertise(
        Advertisement(
          data: AdvertisingData(
            flags: 2, serviceUUIDs: [service],
            serviceData: [.init(service: service, bytes: Array("OVPMOSIP_12345".utf8))]),
          scanResponse: AdvertisingData(
            serviceData: [.init(service: BluetoothUUID(short: 2), bytes: [UInt8](repeating: 9, count: 27))])))
      scene.time.advance(by: .seconds(1))
      #expect(
        scanner.scanResults == [
          ScanResult(
            address: scene.advertiser.address, serviceUUIDs: [service],
            serviceData: [
              .init(service: service, bytes: Array("OVPMOSIP_12345".utf8)),
              .init(service: BluetoothUUID(short: 2), bytes: [UInt8](repeating: 9, count: 27)),
            ])
        ])
      registration.cancel()
    }
  }

  @Test("An advertising payload above 31 bytes makes the simulated radio degraded and leaves its slot empty")
  func tooLong() async {
    await onLoop {
      let scene = Scene()
      let scanner = Scanner(scene.observer)
      let long = AdvertisingData(localName: String(repeating: "n", count: 30))
      let error = RadioError.advertisementTooLong(bytes: 32, limit: 31)
      for (data, scanResponse) in [(long, AdvertisingData()), (AdvertisingData(), long)] {
        scene.advertiser.advertise(advertisement(), in: 0)
        scene.advertiser.advertise(Advertisement(data: data, scanResponse: scanResponse), in: 0)
        #expect(scene.advertiser.status == RadioStatus(.degraded, reason: error.sentence, adapters: ["air0"]))
        scene.time.advance(by: .seconds(1))
        #expect(scanner.scanResults.isEmpty)
      }
      scene.advertiser.advertise(nil, in: 0)
      #expect(scene.advertiser.status.state == .ready)
    }
  }

  @Test("A scan with service UUIDs reports only advertisers of these services; a scan without UUIDs reports all")
  func filtering() async {
    await onLoop {
      let scene = Scene()
      let third = scene.air.addNode()
      let one = scene.advertiser.advertise(advertisement("one"))
      let two = scene.advertiser.advertise(advertisement("two", of: other))
      let dataOnly = third.advertise(
        Advertisement(
          data: AdvertisingData(serviceData: [.init(service: service, bytes: [1])]),
          scanResponse: AdvertisingData(localName: "data")))
      let cases: [([BluetoothUUID], Set<String>)] = [
        ([service], ["one"]), ([other], ["two"]), ([service, other], ["one", "two"]), ([], ["one", "two", "data"]),
      ]
      for (services, names) in cases {
        let scanner = Scanner(scene.observer, for: services)
        scene.time.advance(by: .seconds(1))
        #expect(Set(scanner.names) == names && scanner.names.count == names.count)
      }
      for registration in [one, two, dataOnly] { registration.cancel() }
    }
  }

  @Test("A scan reports changed advertising data at once, and unchanged data at most once a second")
  func changing() async {
    await onLoop {
      let scene = Scene()
      let scanner = Scanner(scene.observer)
      for name in ["a", "b", "b", "a", "a", "a"] {
        let registration = scene.advertiser.advertise(advertisement(name))
        scene.time.advance(by: .milliseconds(200))
        registration.cancel()
        scene.time.advance(by: .milliseconds(200))
      }
      // The second "b" and the last two arrive within a second of a report with the same data, so they are not
      // reported.
      #expect(scanner.names == ["a", "b", "a"])
    }
  }

  @Test("The data of an advertisement can be changed while the advertisement is sent")
  func exchanging() async {
    await onLoop {
      let scene = Scene()
      var moments: [Instant] = []
      let packets = scene.observer.packets { packet in
        if packet.kind != .scanResponse { moments.append(scene.time.now) }
      }
      for name in ["a", "b", "c"] {
        scene.advertiser.advertise(advertisement(name), in: 0)
        scene.time.advance(by: .milliseconds(730))
      }
      #expect(moments.count > 20)
      #expect(zip(moments, moments.dropFirst()).allSatisfy { $0.duration(to: $1) == .milliseconds(100) })
      packets.cancel()
    }
  }

  @Test("An advertiser that returns into range is reported at its next advertising event", arguments: [true, false])
  func returning(byRange: Bool) async {
    await onLoop {
      let scene = Scene()
      scene.air.range = 10
      let scanner = Scanner(scene.observer)
      var registration = scene.advertiser.advertise(advertisement())
      scene.time.advance(by: .milliseconds(500))
      #expect(scanner.scanResults.count == 1)
      if byRange { scene.advertiser.position.x = 11 } else { registration.cancel() }
      scene.time.advance(by: .seconds(29))
      #expect(scanner.scanResults.count == 1)
      if byRange {
        scene.advertiser.position.x = 9
      } else {
        registration = scene.advertiser.advertise(advertisement())
      }
      scene.time.advance(by: .milliseconds(100))
      #expect(scanner.scanResults.count == 2)
      registration.cancel()
    }
  }

  @Test("An advertisement or scan ends when its registration is dropped")
  func dropping() async {
    await onLoop {
      let scene = Scene()
      var registration: Registration? = scene.advertiser.advertise(advertisement("a"))
      #expect(registration != nil)
      registration = nil
      let scanner = Scanner(scene.observer)
      scene.time.advance(by: .seconds(1))
      #expect(scanner.scanResults.isEmpty)
      scanner.registration = nil
      let kept = scene.advertiser.advertise(advertisement("b"))
      scene.time.advance(by: .seconds(1))
      #expect(scanner.scanResults.isEmpty)
      kept.cancel()
    }
  }

  @Test("A scan that is cancelled in its own handler delivers no further result")
  func cancellingWithin() async {
    await onLoop {
      let scene = Scene()
      let holder = Holder()
      holder.registration = scene.observer.scan(for: [service]) { _ in
        holder.count += 1
        holder.registration = nil
      }
      let first = scene.advertiser.advertise(advertisement("a"))
      let second = scene.advertiser.advertise(advertisement("b"))
      scene.time.advance(by: .seconds(1))
      #expect(holder.count == 1)
      for registration in [first, second] { registration.cancel() }
    }
  }

  @Test("Advertisements and scans continue after a temporary loss of the adapter", arguments: [true, false])
  func power(ofAdvertiser: Bool) async {
    await onLoop {
      let scene = Scene()
      let radio = ofAdvertiser ? scene.advertiser : scene.observer
      radio.power = false
      let registration = scene.advertiser.advertise(advertisement("a"))
      let scanner = Scanner(scene.observer)
      scene.time.advance(by: .seconds(1))
      #expect(scanner.scanResults.isEmpty)
      radio.power = true
      scene.time.advance(by: .milliseconds(100))
      #expect(scanner.scanResults.count == 1)
      radio.power = false
      scene.time.advance(by: .seconds(60))
      radio.power = true
      scene.time.advance(by: .milliseconds(100))
      #expect(scanner.scanResults.count == 2)
      registration.cancel()
    }
  }

  @Test("A scan reports neither nodes out of range nor its own node, and the RSSI decreases with distance")
  func range() async {
    await onLoop {
      let scene = Scene()
      scene.air.range = 10
      let far = scene.air.addNode(position: AirPosition(x: 11))
      scene.advertiser.position = AirPosition(x: 10)
      let registrations = [far, scene.advertiser, scene.observer].map { $0.advertise(advertisement()) }
      let scanner = Scanner(scene.observer)
      scene.time.advance(by: .seconds(1))
      #expect(scanner.scanResults.map(\.address) == [scene.advertiser.address])
      #expect(scanner.scanResults.map(\.rssi) == [-79])
      for registration in registrations { registration.cancel() }
    }
  }

  @Test("Each kind of AD structure is decoded as it was encoded")
  func roundTrip() throws {
    let long = try #require(BluetoothUUID("00000006-5026-444a-9e0e-d6f2450f3a77"))
    for data in [
      AdvertisingData(flags: 6, serviceUUIDs: [service, other], localName: "Zoë"),
      AdvertisingData(serviceUUIDs: [long]),
      AdvertisingData(serviceData: [.init(service: long, bytes: [1, 2, 3])]),
      AdvertisingData(serviceData: [.init(service: service, bytes: []), .init(service: other, bytes: [0])]),
      AdvertisingData(),
    ] {
      #expect(AdvertisingData(decoding: try data.encoded()) == data)
    }
  }

  @Test(
    "Decoding of advertising data ends at an invalid AD structure and returns the structures before it",
    arguments: [
      ([0x02, 0x01, 0x06, 0x00, 0x03, 0x03, 0x01, 0x00], AdvertisingData(flags: 6)),
      ([0x02, 0x01, 0x06, 0x09, 0x09, 0x41], AdvertisingData(flags: 6)),
      ([0x01, 0xFF, 0x02, 0x01, 0x06], AdvertisingData(flags: 6)),
      ([0x01, 0x01, 0x04, 0x03, 0x01, 0x00, 0x29], AdvertisingData(serviceUUIDs: [service])),
      ([0x02, 0x16, 0x01, 0x02, 0x01, 0x06], AdvertisingData(flags: 6)),
      ([0x05, 0x05, 0x29, 0xAB, 0x00, 0x00], AdvertisingData(serviceUUIDs: [other])),
      ([0x06, 0x20, 0x29, 0xAB, 0x00, 0x00, 0x07], AdvertisingData(serviceData: [.init(service: other, bytes: [7])])),
      ([0x03, 0x08, 0x41, 0x42], AdvertisingData(localName: "AB")),
      ([0x03, 0xFF, 0x41], AdvertisingData()),
      ([0xFF], AdvertisingData()),
    ] as [([UInt8], AdvertisingData)])
  func hostile(bytes: [UInt8], data: AdvertisingData) {
    let decoded = AdvertisingData(decoding: bytes)
    #expect(decoded.flags == data.flags && decoded.localName == data.localName)
    #expect(decoded.serviceUUIDs == data.serviceUUIDs && decoded.serviceData == data.serviceData)
  }

  @LoopActor
  private final class Holder {
    var registration: Registration?
    var count = 0
  }
}
