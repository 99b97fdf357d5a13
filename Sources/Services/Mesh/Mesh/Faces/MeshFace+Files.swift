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
          "Sends a regular file or a sealed memory file of at most 1 MiB, read to its end, to everybody or to one peer "
          + "(FindPeer has the rules). name is the file name for the recipients, with the extension of its type; mime "
          + "is one of the types that the apps accept, or empty to detect it from the content. Returns the object of "
          + "the file, whose State reports the progress. A private file is sent only to a peer that has announced "
          + "inside a session that it accepts private files. Android phones drop files of more than 256 fragments, "
          + "about 120 kB, or less where a neighbour accepts only small fragments (SliceBytes).",
        errors: [.invalidArgs, .notFound, .notReady, .limitExceeded, .notSupported, .busy, .timeout],
        handler: { sendFile($0, service) }),
      Method(
        "Ping", in: [Argument("peer", "s")], out: [Argument("milliseconds", "u"), Argument("hops", "u")],
        documentation:
          "Pings a peer (FindPeer has the rules), and returns the round-trip time and the number of hops of the "
          + "answer. Waits at most 10 s.",
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
