import Bitchat
import DBus
import Loop

extension MeshFace {
  static func sending(_ service: MeshService) -> [Method] {
    [
      Method(
        "SendFile",
        in: [Argument("file", "h"), Argument("name", "s"), Argument("mime", "s"), Argument("peer", "s")],
        out: [Argument("object", "o")],
        documentation:
          "Sends a regular file or a sealed memory file of 1 MiB at most, which is read to its end: to everybody, or to one "
          + "peer (FindPeer has the rules). name is what others read, with the ending of its type; mime is one of the types that "
          + "the apps take, or empty for what the content shows. Returns the object of the file, whose State says how it "
          + "goes. A private file goes to a peer alone that has shown, inside a session, that it takes one. Android phones "
          + "drop files of more than 256 fragments, about 120 kB, or less where a neighbour takes little at a time (SliceBytes).",
        errors: [.invalidArgs, .notFound, .notReady, .limitExceeded, .notSupported, .busy, .timeout],
        handler: { sendFile($0, service) }),
      Method(
        "Ping", in: [Argument("peer", "s")], out: [Argument("milliseconds", "u"), Argument("hops", "u")],
        documentation:
          "Asks a peer (FindPeer has the rules) for a sign of life, and returns how long it took there and back and over how many hops the answer came. Waits 10 s at most.",
        errors: [.invalidArgs, .notFound, .notReady, .limitExceeded, .timeout],
        handler: { ping($0, service) }),
    ]
  }

  /// Sends a file. Reading it may block, so it happens outside of the loop.
  private static func sendFile(_ call: MethodCall, _ service: MeshService) {
    let texts = call.arguments.dropFirst().compactMap(\.asString)
    guard let file = call.arguments.first?.asDescriptor, texts.count == 3 else {
      return call.fail(.invalidArgs("SendFile takes a file, its name, its type and a peer."))
    }
    call.read(file, limit: Limits.fileBytes) { result in
      do throws(DBusError) {
        let number = try send(try result.get(), texts, service)
        call.reply(.objectPath(MeshFileFaces.path(number)))
      } catch {
        call.fail(error)
      }
    }
  }

  private static func send(
    _ content: [UInt8], _ texts: [String], _ service: MeshService
  ) throws(DBusError) -> UInt32 {
    do throws(MeshService.Refusal) {
      return try service.send(file: content, name: texts[0], mime: texts[1], to: texts[2])
    } catch {
      throw DBusError(error)
    }
  }

  private static func ping(_ call: MethodCall, _ service: MeshService) {
    do throws(MeshService.Refusal) {
      try service.ping(call.arguments.first?.asString ?? "") { pong in
        switch pong {
        case .answered(let milliseconds, let hops):
          call.reply(.uint32(milliseconds), .uint32(UInt32(clamping: hops)))
        case .lost: call.fail(.timeout("The peer has not answered within 10 s."))
        }
      }
    } catch {
      call.fail(DBusError(error))
    }
  }
}
