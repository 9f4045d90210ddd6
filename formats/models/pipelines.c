/* pipelines.c - see pipelines.h; tests/golden/pipelines.json lists the classes of diffusers 0.42.1,
 * each of which has a family or a row. */
#include "formats/models/pipelines.h"

#include <fnmatch.h>
#include <stddef.h>

#define OTHER(class_, model_) { .class = class_, .model = model_ }
#define READS(class_, model_, what) { .class = class_, .model = model_, .reads = what }
#define SAME(class_, model_, pipeline) { .class = class_, .model = model_, .same = pipeline }
#define IS(class_, model_, why) { .class = class_, .model = model_, .is = why }
#define UNET(class_, model_) IS(class_, model_, "whose network is a U-Net and no transformer")
#define BESIDE " beside a ControlNet, which vtrain's --controlnet names"
#define PIXELS "which makes pixels and no latents"
#define SOUND "which makes sound alone"
#define STEP "which is a later step of a sample"

const vf_other_pipeline vf_other_pipelines[] = {
    /* other pipelines of families that are here */
    SAME("Chroma*", "Chroma", "ChromaPipeline"),
    READS("ConsisID*", "ConsisID", "a face"),
    READS("Flux2KleinKV*", "FLUX.2 klein KV", "reference pictures once for all steps"),
    SAME("Flux2Klein*", "FLUX.2 klein", "Flux2KleinPipeline"),
    SAME("FluxControlNet*", "FLUX.1 with a ControlNet", "FluxPipeline" BESIDE),
    READS("FluxControl*", "FLUX.1 Canny or Depth", "a picture beside the noisy latents"),
    READS("FluxPriorRedux*", "FLUX.1 Redux", "a picture in place of a prompt"),
    SAME("FluxKontext*", "FLUX.1 Kontext", "FluxKontextPipeline"),
    OTHER("Flux3*", "FLUX.3"),
    SAME("Flux*", "FLUX.1", "FluxPipeline"),
    READS("HunyuanVideoFramepack*", "FramePack", "frames before the clip"),
    READS("Kandinsky5I2I*", "Kandinsky 5 I2I", "a picture to edit"),
    IS("Kandinsky5T2I*", "Kandinsky 5 T2I", "which has the autoencoder of FLUX.1"),
    IS("LTX*Upsample*", "the upsampler of LTX-Video", STEP),
    IS("LTX2VideoDiffusionDecode*", "the diffusion decoder of LTX-2", STEP),
    READS("LTX2InContext*", "LTX-2 with a reference clip", "a reference clip"),
    OTHER("LTX25*", "LTX-2.5"),
    READS("LTX2*", "another form of LTX-2", "more than prompts and first frames"),
    SAME("LTXI2VLong*", "LTX-Video", "LTXConditionPipeline"),
    READS("QwenImageLayered*", "Qwen-Image-Layered", "layers of a picture"),
    SAME("QwenImageControlNet*", "Qwen-Image with a ControlNet", "QwenImagePipeline" BESIDE),
    OTHER("QwenImage21*", "Qwen-Image 2.1"),
    SAME("QwenImageEditInpaint*", "Qwen-Image-Edit", "QwenImageEditPipeline"),
    SAME("QwenImage*", "Qwen-Image", "QwenImagePipeline"),
    READS("StableDiffusion3ControlNet*", "Stable Diffusion 3 with a ControlNet", "a control picture"),
    SAME("StableDiffusion3*", "Stable Diffusion 3", "StableDiffusion3Pipeline"),
    READS("Cosmos2_5_Predict*", "Cosmos-Predict2.5", "states of all layers of Qwen2.5-VL"),
    READS("Cosmos2_5_Transfer*", "Cosmos-Transfer2.5", "a control clip"),
    READS("WanAnimate*", "Wan 2.2 Animate", "poses and a face"),
    SAME("WanVideoToVideo*", "Wan", "WanPipeline"),
    READS("LucyEdit*", "Lucy Edit", "a clip to edit"),
    READS("VisualCloze*", "VisualCloze", "pictures as examples"),
    READS("ZImageOmni*", "Z-Image-Omni", "reference pictures"),
    READS("ZImageControlNet*", "Z-Image with a ControlNet", "a control picture"),
    SAME("ZImage*", "Z-Image", "ZImagePipeline"),
    /* families of transformers that are not here */
    OTHER("Allegro*", "Allegro"), OTHER("Amused*", "aMUSEd"), OTHER("AnimaPipeline", "Anima"),
    OTHER("AnyFlow*", "AnyFlow"), OTHER("AuraFlow*", "AuraFlow"), OTHER("Bria*", "Bria"),
    OTHER("ChronoEdit*", "ChronoEdit"), OTHER("CogView*", "CogView"), OTHER("Cosmos3*", "Cosmos 3"),
    OTHER("CosmosTextTo*", "Cosmos 1.0"), OTHER("CosmosVideoTo*", "Cosmos 1.0"),
    OTHER("DiT*", "DiT"), OTHER("EasyAnimate*", "EasyAnimate"), OTHER("GlmImage*", "GLM-Image"),
    OTHER("Helios*", "Helios"), OTHER("HiDream*", "HiDream"),
    OTHER("HunyuanDiT*", "Hunyuan-DiT"), OTHER("HunyuanImage*", "HunyuanImage"),
    OTHER("JoyImage*", "JoyImage"),
    OTHER("Kandinsky6*", "Kandinsky 6"),
    OTHER("Latte*", "Latte"), OTHER("LongCatImage*", "LongCat-Image"),
    OTHER("Lumina2*", "Lumina 2"), OTHER("Lumina*", "Lumina"), OTHER("MiniMaxH3*", "MiniMax-H3"),
    OTHER("Mochi*", "Mochi"), OTHER("MotifVideo*", "Motif-Video"),
    OTHER("NucleusMoE*", "Nucleus-Image"), OTHER("OmniGen*", "OmniGen"),
    OTHER("OvisImage*", "Ovis-Image"), OTHER("PixArt*", "PixArt"),
    IS("PRXPixel*", "PRX Pixel", PIXELS), OTHER("PRX*", "PRX"),
    OTHER("SanaVideo*", "Sana-Video"), OTHER("SanaImageToVideo*", "Sana-Video"),
    OTHER("SanaWM*", "Sana-WM"), OTHER("Sana*", "Sana"),
    OTHER("VQDiffusion*", "VQ-Diffusion"),
    /* other networks */
    UNET("AltDiffusion*", "AltDiffusion"), UNET("AnimateDiff*", "AnimateDiff"),
    UNET("BlipDiffusion*", "BLIP-Diffusion"), UNET("DreamLite*", "DreamLite"),
    UNET("I2VGenXL*", "I2VGen-XL"), UNET("Kandinsky*", "Kandinsky 2 or 3"),
    UNET("Kolors*", "Kolors"), UNET("LatentConsistencyModel*", "a latent consistency model"),
    UNET("LDM*", "latent diffusion"), UNET("Marigold*", "Marigold"),
    UNET("PaintByExample*", "Paint by Example"), UNET("PIA*", "PIA"),
    UNET("StableCascade*", "Stable Cascade"), UNET("Wuerstchen*", "Wuerstchen"),
    UNET("StableVideoDiffusion*", "Stable Video Diffusion"),
    UNET("*StableDiffusionXL*", "Stable Diffusion XL"),
    UNET("*StableDiffusion*", "Stable Diffusion"), UNET("CycleDiffusion*", "Stable Diffusion"),
    UNET("StableUnCLIP*", "Stable Diffusion"),
    UNET("TextToVideo*", "ModelScope's text-to-video"),
    UNET("VideoToVideoSD*", "ModelScope's text-to-video"),
    UNET("UnCLIP*", "unCLIP"), UNET("UniDiffuser*", "UniDiffuser"),
    UNET("VersatileDiffusion*", "Versatile Diffusion"),
    IS("ConsistencyModel*", "a consistency model", PIXELS), IS("DD?MPipeline", "DDPM", PIXELS),
    IS("IF*", "DeepFloyd IF", PIXELS), IS("KarrasVe*", "Karras's VE model", PIXELS),
    IS("PNDM*", "PNDM", PIXELS), IS("RePaint*", "RePaint", PIXELS),
    IS("ScoreSdeVe*", "a score model", PIXELS),
    IS("AceStep*", "ACE-Step", SOUND), IS("Audio*", "AudioLDM", SOUND),
    IS("DanceDiffusion*", "Dance Diffusion", SOUND),
    IS("LongCatAudio*", "LongCat-AudioDiT", SOUND), IS("MusicLDM*", "MusicLDM", SOUND),
    IS("Spectrogram*", "a diffusion of spectrograms", SOUND),
    IS("StableAudio*", "Stable Audio", SOUND),
    IS("DiffusionGemma*", "DiffusionGemma", "which makes text"),
    IS("LLaDA2*", "LLaDA 2", "which makes text"),
    IS("RFD4Proteina*", "Proteina", "which makes proteins"),
    IS("ShapE*", "Shap-E", "which makes shapes and no pictures"),
    { 0 }
};

const vf_other_pipeline *vf_other_pipeline_of(const char *class)
{
    const vf_other_pipeline *p = vf_other_pipelines;
    while (p->class && fnmatch(p->class, class, 0))
        p++;
    return p->class ? p : NULL;
}
